use squall_model::networks::config::NetworkName;
use squall_model::{Backend, Network, NetworkConfig};

#[test]
fn published_counts() {
    for (name, parameters, forward, training) in
        [(NetworkName::DeepCam, 56_454_720, 0.655e12, 1.966e12)]
    {
        let network = Network::build(&NetworkConfig::published(name), Backend::best(), 1).unwrap();
        let summary = network.summary(768, 1152).unwrap();
        assert_eq!(summary.parameters, network.parameters().count(), "{name:?}");
        assert_eq!(summary.parameters, parameters, "{name:?}");
        let found = (summary.forward_flops as f64, summary.training_flops as f64);
        assert!(
            (found.0 / forward - 1.0).abs() < 1e-3 && (found.1 / training - 1.0).abs() < 1e-3,
            "{name:?}: {found:?}"
        );
    }
}

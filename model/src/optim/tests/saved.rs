//! A saved state goes to the rule and the parameters that it is of.

use super::*;

#[test]
fn a_state_that_does_not_fit_is_named() {
    let path = Path::new("run/checkpoint.safetensors");
    let saved = |sizes: &[usize], rule| {
        let parameters = network(sizes, 1);
        let config = OptimizerConfig {
            rule,
            ..OptimizerConfig::default()
        };
        let mut file = ModelFile::default();
        Optimizer::new(&config, &parameters)
            .unwrap()
            .save_into(&mut file)
            .unwrap();
        file
    };
    let parameters = network(&[5, 7, 3], 1);
    let mut optimizer = Optimizer::new(&OptimizerConfig::default(), &parameters).unwrap();
    let mut load = |file: &ModelFile| optimizer.load_from(path, &file.facts, &file.tensors);
    let mut refusal = |file: &ModelFile| load(file).unwrap_err().to_string();
    let shape = refusal(&saved(&[5, 8, 3], Rule::AdamW));
    assert!(
        shape.contains("optimizer.first.p1.weight") && shape.contains('8'),
        "{shape}"
    );
    let missing = refusal(&saved(&[5, 7], Rule::AdamW));
    assert!(missing.contains("optimizer.first.p2.bias"), "{missing}");
    // Adam and LAMB keep the same moments, and yet they are others.
    for rule in [Rule::Sgd, Rule::Adam, Rule::Lamb] {
        let said = refusal(&saved(&[5, 7, 3], rule));
        let expected = format!("state of `{}`, this run's rule is `adamw`", rule.name());
        assert!(said.contains(&expected), "{said}");
    }
    load(&saved(&[5, 7, 3], Rule::AdamW)).unwrap();
}

/// Files of earlier versions do not name the rule.
#[test]
fn a_state_without_its_rule_is_told_by_its_moments() {
    let path = Path::new("run/checkpoint.safetensors");
    let parameters = network(&[5, 7, 3], 1);
    let optimizer = |rule| {
        let config = OptimizerConfig {
            rule,
            ..OptimizerConfig::default()
        };
        Optimizer::new(&config, &parameters).unwrap()
    };
    let load = |from, into| {
        let mut file = ModelFile::default();
        optimizer(from).save_into(&mut file).unwrap();
        assert!(file.facts.remove("optimizer.rule").is_some());
        optimizer(into).load_from(path, &file.facts, &file.tensors)
    };
    for rule in [Rule::Sgd, Rule::Adam, Rule::AdamW, Rule::Lamb] {
        load(rule, rule).unwrap();
    }
    load(Rule::Adam, Rule::AdamW).unwrap();
    for (from, into, found, expected) in [
        (Rule::Sgd, Rule::Adam, 1, "`adam` 2"),
        (Rule::Lamb, Rule::Sgd, 2, "`sgd` 1"),
    ] {
        let said = load(from, into).unwrap_err().to_string();
        let found = format!("are {found} per parameter");
        assert!(said.contains(&found) && said.contains(expected), "{said}");
    }
}

/// Checkpoints and recipes call a rule by one name.
#[test]
fn a_rule_has_its_name_in_a_recipe() {
    for rule in [Rule::Sgd, Rule::Adam, Rule::AdamW, Rule::Lamb] {
        assert_eq!(serde_json::json!(rule), rule.name());
    }
}

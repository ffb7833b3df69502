//! Names of archives and what they mean.

use super::*;

#[test]
fn every_channel_answers_to_its_own_name_and_to_no_other() {
    for (index, variable) in Variable::CHANNELS.into_iter().enumerate() {
        assert_eq!(
            CHANNEL_NAMES[index].0, variable,
            "rows stand in model order"
        );
        assert_eq!(matches(variable.name()), [(variable, Match::Same)]);
    }
    assert_eq!(matches("tcwv"), [(Tmq, Match::Same)]);
    assert_eq!(
        matches("T"),
        [(T200, Match::Level(200.0)), (T500, Match::Level(500.0))]
    );
    assert!(matches("time").is_empty());
}

/// GFS as NOMADS serves it, and as `wgrib2 -netcdf` writes it.
#[test]
fn names_of_gfs() {
    for (channel, nomads, wgrib2) in [
        (
            Tmq,
            "pwatclm",
            "PWAT_entireatmosphere_consideredasasinglelayer_",
        ),
        (Ps, "pressfc", "PRES_surface"),
        (Psl, "prmslmsl", "PRMSL_meansealevel"),
        (Psl, "msletmsl", "MSLET_meansealevel"),
        (Qrefht, "spfh2m", "SPFH_2maboveground"),
        (Prect, "pratesfc", "PRATE_surface"),
        (Ts, "tmpsfc", "TMP_surface"),
        (Trefht, "tmp2m", "TMP_2maboveground"),
    ] {
        for name in [nomads, wgrib2] {
            assert_eq!(matches(name), [(channel, Match::Same)], "{name}");
        }
    }
    for (channel, nomads, hpa, wgrib2) in [
        (U850, "ugrdprs", 850.0, "UGRD_850mb"),
        (V850, "vgrdprs", 850.0, "VGRD_850mb"),
        (T200, "tmpprs", 200.0, "TMP_200mb"),
        (T500, "tmpprs", 500.0, "TMP_500mb"),
        (Z200, "hgtprs", 200.0, "HGT_200mb"),
        (Z1000, "hgtprs", 1000.0, "HGT_1000mb"),
    ] {
        assert!(matches(nomads).contains(&(channel, Match::Level(hpa))));
        assert_eq!(matches(wgrib2), [(channel, Match::Same)], "{wgrib2}");
    }
    for (channel, nomads, wgrib2) in [
        (Ubot, "ugrd10m", "UGRD_10maboveground"),
        (Vbot, "vgrd10m", "VGRD_10maboveground"),
    ] {
        for name in [nomads, wgrib2] {
            let found = matches(name);
            let is_proxy = matches!(found[..], [(of, Match::Proxy(_))] if of == channel);
            assert!(is_proxy, "{name}: {found:?}");
        }
    }
    assert_eq!(family("spfhprs"), Some(Family::Humidity));
    assert!(is_dewpoint("dpt2m") && is_dewpoint("DPT_2maboveground"));
}

/// As the tables of variables of ERA5 (short names), MERRA-2 and CMIP6 have them.
#[test]
fn names_of_reanalyses_and_cmip() {
    for (channel, names) in [
        (Tmq, ["tcwv", "TQV", "prw"]),
        (Ps, ["sp", "PS", "ps"]),
        (Psl, ["msl", "SLP", "psl"]),
        (Prect, ["mtpr", "PRECTOT", "pr"]),
        (Ts, ["skt", "TS", "ts"]),
        (Trefht, ["t2m", "T2M", "tas"]),
        (Z200, ["z200", "H200", "zg200"]),
        (Z1000, ["z1000", "H1000", "zg1000"]),
    ] {
        for name in names {
            assert_eq!(matches(name), [(channel, Match::Same)], "{name}");
        }
    }
    for (channel, names) in [
        (Ubot, ["u10", "U10M", "uas"]),
        (Vbot, ["v10", "V10M", "vas"]),
    ] {
        for name in names {
            let found = matches(name);
            let is_proxy = matches!(found[..], [(of, Match::Proxy(_))] if of == channel);
            assert!(is_proxy, "{name}: {found:?}");
        }
    }
    for (known, names) in [
        (Family::Zonal, ["u", "U", "ua"]),
        (Family::Meridional, ["v", "V", "va"]),
        (Family::Temperature, ["t", "T", "ta"]),
        (Family::Height, ["z", "H", "zg"]),
        (Family::Humidity, ["q", "QV", "hus"]),
    ] {
        for name in names {
            assert_eq!(family(name), Some(known), "{name}");
        }
    }
    // CAM, ERA5, MERRA-2 and ARTMIP.
    for (part, names) in [
        (Transport::Eastward, ["TUQ", "viwve", "UFLXQV", "uIVT"]),
        (Transport::Northward, ["TVQ", "viwvn", "VFLXQV", "vIVT"]),
        (Transport::Magnitude, ["IVT", "ivt", "ivtmag", "ivt_mag"]),
    ] {
        for name in names {
            assert_eq!(transport(name), Some(part), "{name}");
        }
    }
    assert_eq!((transport("tcwv"), family("o3")), (None, None));
}

#[test]
fn no_name_means_two_channels() {
    let mut all: Vec<&str> = CHANNEL_NAMES
        .iter()
        .flat_map(|row| row.1.iter().copied())
        .collect();
    all.extend(PROXIES.iter().flat_map(|row| row.1.iter().copied()));
    all.extend(LEVELS.iter().flat_map(|row| row.1.iter().copied()));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

/// MERRA-2's wind of the lowest level had been called one at 10 m, and lost to that at 10 m; WRF's mixing ratio had
/// been specific humidity.
#[test]
fn stand_ins_are_what_they_are_called() {
    for (channel, own, at_10_m) in [(Ubot, "ULML", "U10M"), (Vbot, "VLML", "V10M")] {
        assert_eq!(matches(own), [(channel, Match::Same)]);
        assert!(matches!(matches(at_10_m)[..], [(_, Match::Proxy(told))] if told.contains("10 m")));
    }
    assert!(matches!(matches("Q2")[..], [(Qrefht, Match::Proxy(told))] if told.contains("WRF")));
    assert_eq!(matches("QV2M"), [(Qrefht, Match::Same)]);
}

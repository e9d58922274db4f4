//! Tests which settings belong to which model of an SSD, and how they become a drive.

use std::fs;

use destage_plan::Nanos;
use destage_scenario::sim::{SIM, experiment, requests};
use destage_scenario::{DescribedSimulation, ScenarioSettings, scenario, simulation};
use destage_sim::array::DeviceSetup;
use destage_sim::buffer::DeviceConfig;
use destage_sim::ssd::{CollectionPoint, HandleIsolation, PlacementConfig, SsdConfig, VictimPolicy};

/// Returns the settings of a run over a small trace, and these.
fn settings(trace: &str, given: &[(&str, &str)]) -> ScenarioSettings {
    let mut settings = ScenarioSettings::new(SIM);
    let base = [("trace", trace), ("format", "rq-csv"), ("device", "ssd"), ("policy", "lru"), ("cache", "1MiB")];
    for (name, value) in base.iter().chain(given) {
        settings.flag(name, vec![(*value).to_owned()]).expect("a setting");
    }
    settings
}

/// Returns the SSD that these settings describe, or why there is none.
fn ssd(given: &[(&str, &str)]) -> Result<SsdConfig, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "0,W,0,8\n1,R,0,8\n").expect("a trace");
    let settings = settings(trace.to_str().expect("a name in UTF-8"), given);
    let requests = requests(&settings).expect("requests");
    let experiment = experiment(&settings, &requests).map_err(|error| error.to_string())?;
    experiment.check().map_err(|error| error.to_string())?;
    // Written as a scenario file it is the same simulation.
    scenario(&settings).map_err(|error| error.to_string())?;
    match experiment.device {
        DeviceConfig::Ssd(config, _) => Ok(config),
        other => panic!("{other:?}"),
    }
}

const MODERN: (&str, &str) = ("ssd.model", "modern");
const CLASSIC: (&str, &str) = ("ssd.model", "classic");
const PM9A3: (&str, &str) = ("ssd.preset", "pm9a3");

#[test]
fn drives_are_modern_and_papers_classic_unless_told_otherwise() {
    let pm9a3 = ssd(&[PM9A3]).expect("a drive");
    assert_eq!((pm9a3.elements, pm9a3.planes, pm9a3.program), (16, 2, Nanos(987_000)));
    for same in [&[][..], &[MODERN], &[PM9A3, MODERN]] {
        assert_eq!(ssd(same).expect("a drive"), pm9a3, "{same:?}");
    }
    let p5520 = ssd(&[("ssd.preset", "p5520")]).expect("a drive");
    assert_eq!((p5520.elements, p5520.modern.expect("modern").write_slots), (32, 256));
    let classic = ssd(&[PM9A3, CLASSIC]).expect("an SSD");
    assert_eq!((classic.modern, classic.elements), (None, 64));
    let lawc = ssd(&[("ssd.preset", "lawc")]).expect("an SSD");
    assert_eq!((&lawc.modern, lawc.elements, lawc.planes), (&None, 4, 4));
    assert_eq!(ssd(&[CLASSIC]).expect("an SSD"), lawc);
    for paper in ["gcar", "cawr", "80gb"] {
        assert_eq!(ssd(&[("ssd.preset", paper)]).expect("an SSD").modern, None, "{paper}");
    }
}

/// Returns what results and scenario files say of preset and model.
fn named(given: &[(&str, &str)]) -> [Option<String>; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "0,W,0,8\n1,R,0,8\n").expect("a trace");
    let settings = settings(trace.to_str().expect("a name in UTF-8"), given);
    let requests = requests(&settings).expect("requests");
    let recorded = experiment(&settings, &requests).expect("an experiment").replay.settings;
    let found = ["ssd.preset", "ssd.model"]
        .map(|key| recorded.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone()));
    let text = scenario(&settings).expect("a scenario");
    for (key, value) in ["preset", "model"].iter().zip(&found) {
        // Where it is part of the size, a preset stands in a comment.
        let is_told = value.as_ref().is_none_or(|value| text.contains(&format!("{key} = \"{value}\"\n")));
        assert!(is_told, "{key} {value:?}: {text}");
    }
    found
}

#[test]
fn what_follows_is_recorded() {
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(named(&[]), [some("pm9a3"), some("modern")]);
    assert_eq!(named(&[("ssd.preset", "p5520")]), [some("p5520"), some("modern")]);
    assert_eq!(named(&[CLASSIC]), [some("lawc"), some("classic")]);
    assert_eq!(named(&[PM9A3, CLASSIC]), [some("pm9a3"), some("classic")]);
    assert_eq!(named(&[("ssd.preset", "gcar")]), [some("gcar"), None]);
}

#[test]
fn every_setting_reaches_the_drive() {
    let config = ssd(&[
        PM9A3,
        MODERN,
        ("ssd.elements", "8"),
        ("ssd.planes", "4"),
        ("ssd.reserve", "20%"),
        ("ssd.read", "40us"),
        ("ssd.program", "700us"),
        ("ssd.erase", "3ms"),
        ("ssd.transfer", "1"),
        ("ssd.collection-write-point", "shared"),
        ("ssd.pages-per-word-line", "4"),
        ("ssd.word-lines", "3"),
        ("ssd.suspend", "50us"),
        ("ssd.bypass", "4"),
        ("ssd.slice", "12"),
        ("ssd.write-cache", "8MiB"),
        ("ssd.write-hold", "1MiB"),
        ("ssd.write-slots", "32"),
        ("ssd.command-read", "5us"),
        ("ssd.command-write", "9us"),
        ("ssd.command-hit", "12us"),
        ("ssd.command-rate", "100000"),
        ("ssd.link", "none"),
        ("ssd.gc", "d-choice:7"),
        ("ssd.free-target", "5"),
        ("ssd.pace-gain", "0.5"),
        ("ssd.queue-depth", "9"),
        ("ssd.capacity", "1GiB"),
    ])
    .expect("a drive");
    let modern = config.modern.clone().expect("modern");
    assert_eq!((config.elements, config.planes, config.reserve_bp, config.queue_depth), (8, 4, 2000, Some(9)));
    assert_eq!([config.read, config.program, config.erase].map(|time| time.0), [40_000, 700_000, 3_000_000]);
    assert_eq!((config.transfer_ps_per_byte, config.collection_write_point), (1000, CollectionPoint::Shared));
    assert_eq!((modern.word_lines, modern.bypass, modern.slice_reads), (Some(3), 4, 12));
    assert_eq!(modern.pages_per_word_line, 4);
    assert_eq!((modern.write_cache_bytes, modern.write_hold_bytes, modern.write_slots), (8 << 20, 1 << 20, 32));
    let times = [modern.suspend, modern.command_read, modern.command_write, modern.command_hit].map(|time| time.0);
    assert_eq!(times, [50_000, 5_000, 9_000, 12_000]);
    assert_eq!((modern.command_rate, modern.link_rate, modern.victim), (Some(100_000), None, VictimPolicy::DChoice(7)));
    assert_eq!((modern.free_target, modern.pace_gain_milli, modern.exported_pages), (5, 500, 1 << 18));
}

#[test]
fn settings_of_the_other_model_are_refused() {
    let refused = |given: &[(&str, &str)]| ssd(given).expect_err("a refusal");
    for key in ["ssd.suspend", "ssd.command-hit"] {
        let message = refused(&[PM9A3, CLASSIC, (key, "1us")]);
        assert!(message.contains(&format!("'{key}' has no meaning with ssd.model = classic")), "{message}");
        assert!(message.contains("leave it out, or set ssd.model = modern"), "{message}");
    }
    let message = refused(&[("ssd.preset", "lawc"), ("ssd.gc", "greedy")]);
    assert!(message.contains("in place of ssd.preset = lawc, such as pm9a3"), "{message}");
    for (key, value) in
        [("ssd.ftl", "bast"), ("ssd.min-free", "1%"), ("ssd.stride", "2"), ("ssd.blocks-per-plane", "9")]
    {
        for given in [&[PM9A3, MODERN, (key, value)][..], &[(key, value)]] {
            let message = refused(given);
            assert!(
                message.contains(&format!("'{key}' has no meaning with ssd.model = modern (ssd.preset = pm9a3)"))
                    && message.ends_with("set ssd.model = classic (--ssd.model classic)"),
                "{message}"
            );
        }
    }
    let message = refused(&[MODERN, ("ssd.preset", "lawc")]);
    assert!(message.contains("with ssd.model = modern one of pm9a3, p5520, 980pro, 850evo, p4320"), "{message}");
    // A whole drive has to be asked for.
    let message = refused(&[("lba-overflow", "compact")]);
    assert!(message.contains("give ssd.capacity, such as 8GiB, or preset"), "{message}");
    assert!(ssd(&[("lba-overflow", "compact"), ("ssd.capacity", "1GiB")]).is_ok());
    let message = refused(&[("ssd.preset", "p5520"), ("ssd.model", "classic")]);
    assert!(message.contains("has ssd.model = modern alone"), "{message}");
}

#[test]
fn what_cannot_work_says_what_to_change() {
    let refused = |given: &[(&str, &str)]| {
        ssd(&[&[PM9A3, MODERN, ("ssd.capacity", "1GiB")], given].concat()).expect_err("a refusal")
    };
    for (given, expected) in [
        (&[("ssd.write-cache", "100KiB")][..], "ssd.write-cache = 102400 B is less than 196608 B"),
        (&[("ssd.write-hold", "4MiB")], "and the 4194304 B of ssd.write-hold"),
        (&[("ssd.free-target", "1")], "ssd.free-target = 1 is not between 2 and 256"),
        (&[("ssd.gc", "d-choice:0")], "d-choice:N with N between 1 and 1000"),
        (&[("ssd.pages-per-word-line", "6")], "ssd.pages-per-word-line = 6 is not between 1 and 5"),
        (&[("ssd.planes", "17")], "ssd.planes = 17 is not between 1 and 16"),
        (&[("ssd.reserve", "0%")], "raise ssd.reserve or ssd.free-target"),
        (&[("ssd.command-rate", "0")], "none, or a number of at least 1"),
        (&[("ssd.placement", "streams")], "labels no writes, so that ssd.placement = streams keeps nothing apart"),
        (&[("ssd.placement-handles", "4")], "has no meaning with ssd.placement = off"),
        (&[("ssd.placement", "streams"), ("ssd.placement-handles", "0")], "a number between 1 and 128"),
        (&[("ssd.placement", "on")], "off, streams"),
        (&[("ssd.suspend", "2s")], "ssd.suspend (in ns) = 2000000000 is not between 0 and 1000000000"),
        (&[("page", "32KiB")], "page = 32768 B is not between 512 B and 16384 B, as ssd.model = modern needs"),
    ] {
        let message = refused(given);
        assert!(message.contains(expected), "{given:?}: {message}");
    }
    for policy in ["cawr", "cave+fab"] {
        let message = refused(&[("policy", policy)]);
        assert!(message.contains("set ssd.model = classic"), "{policy}: {message}");
    }
}

/// Returns the members of an array that these settings describe, or why there is none.
fn members(given: &[(&str, &str)]) -> Result<SsdConfig, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "0,W,0,8\n1,R,0,8\n").expect("a trace");
    let mut settings = ScenarioSettings::new(SIM);
    let base = [("trace", trace.to_str().expect("a name in UTF-8")), ("format", "rq-csv"), ("array", "raid5:5")];
    for (name, value) in base.iter().chain(&[("device", "ssd"), ("policy", "none"), PM9A3]).chain(given) {
        settings.flag(name, vec![(*value).to_owned()]).expect("a setting");
    }
    let requests = requests(&settings).expect("requests");
    let described = simulation(&settings, &requests).map_err(|error| error.to_string())?;
    scenario(&settings).map_err(|error| error.to_string())?;
    match described {
        DescribedSimulation::Array(array) => match array.member {
            DeviceSetup::Ssd { config, .. } => Ok(config),
            other => panic!("{other:?}"),
        },
        DescribedSimulation::Buffers(_) => panic!("an array"),
    }
}

#[test]
fn members_keep_streams_apart() {
    let streams = ("ssd.placement", "streams");
    let placement = |given: &[(&str, &str)]| members(given).expect("members").modern.expect("modern").placement;
    assert_eq!(placement(&[MODERN]), None);
    assert_eq!(placement(&[MODERN, streams]), Some(PlacementConfig::default()));
    let given = [MODERN, streams, ("ssd.placement-handles", "3"), ("ssd.placement-isolation", "persistently")];
    let expected = PlacementConfig { handles: 3, isolation: HandleIsolation::Persistently };
    assert_eq!(placement(&given), Some(expected));
    let refused = |given: &[(&str, &str)]| members(given).expect_err("a refusal");
    let message = refused(&[MODERN, streams, ("drive.cache", "1MiB")]);
    assert!(message.contains("'drive.cache' writes pages of all streams together"), "{message}");
    let message = refused(&[("ssd.model", "classic"), streams]);
    assert!(message.contains("'ssd.placement' has no meaning with ssd.model = classic"), "{message}");
}

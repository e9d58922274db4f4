//! Settings of devices and of policies that know them, as a user meets them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::binary::{quietly, refused};
use crate::cli::{small_trace, temporary, text};

#[test]
fn a_device_takes_as_many_commands_as_its_queue_is_deep() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let base = [
        "sim",
        "--trace",
        text(&trace),
        "--policy",
        "none",
        "--cache",
        "1MiB",
        "--device",
        "ssd",
        "--ssd.preset",
        "lawc",
        "--start",
        "full",
        "--speed",
        "20",
    ];
    let sim = |args: &[&str]| {
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), &["--json"], args].concat())).unwrap();
        runs[0].clone()
    };
    let (none, one) = (sim(&[]), sim(&["--ssd.queue-depth", "1"]));
    let mean = |run: &Value| run["response"]["all"]["mean"].as_f64().unwrap();
    assert!(mean(&one) > mean(&none), "{} and {}", mean(&one), mean(&none));
    assert_eq!(one["flash_writes"].as_u64().unwrap(), none["flash_writes"]);
    let setting = |run: &Value| {
        run["settings"].as_array().unwrap().iter().find(|s| s["name"] == "ssd.queue-depth").map(|s| s["value"].clone())
    };
    assert_eq!((setting(&none), setting(&one)), (None, Some("1".into())));
    assert_eq!(sim(&["--ssd.queue-depth", "none"])["response"], none["response"]);
    for depth in ["0", "65537", "1.5", "many"] {
        let message = refused(&[base.as_slice(), &["--ssd.queue-depth", depth]].concat());
        assert!(message.contains("none, or a number between 1 and 65536"), "{message}");
    }
}

#[test]
fn room_is_made_for_pages_or_for_requests() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let base = ["sim", "--trace", text(&trace), "--policy", "fab,lb-clock", "--cache", "128KiB"];
    let sim = |args: &[&str]| -> Vec<Value> {
        serde_json::from_str(&quietly(&[base.as_slice(), &["--json"], args].concat())).unwrap()
    };
    let (page, request) = (sim(&[]), sim(&["--admission", "request"]));
    let named = |list: &Value, name: &str| {
        list.as_array().unwrap().iter().find(|s| s["name"] == name).map(|s| s["value"].as_str().unwrap().to_owned())
    };
    for (runs, admission, anchor) in [(&page, "page", "initial_hand"), (&request, "request", "current_hand")] {
        assert_eq!(named(&runs[0]["settings"], "admission").as_deref(), Some(admission));
        assert_eq!(named(&runs[1]["params"], "insert_anchor").as_deref(), Some(anchor));
    }
    for (by_page, by_request) in page.iter().zip(&request) {
        assert_eq!(by_page["accesses"].as_u64().unwrap(), by_request["accesses"]);
        assert_ne!(by_page["evictions"].as_u64().unwrap(), by_request["evictions"]);
    }
    let refusal = |args: &[&str]| refused(&[base.as_slice(), args].concat());
    assert!(refusal(&["--admission", "block"]).contains("--admission = 'block': one of page, request"));
    let protected = refusal(&["--admission", "request", "--policy", "fab:protect_current=true"]);
    assert!(protected.contains("policy 'fab' has no page to protect the block of"), "{protected}");
    let array = ["sim", "--trace", text(&trace), "--array", "raid5:3", "--policy", "none", "--admission", "request"];
    assert!(refused(&array).contains("'admission' has no meaning for an array"));
}

#[test]
fn channels_are_an_allocation_of_the_ssd() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let sim = |args: &[&str]| {
        let base = ["sim", "--trace", text(&trace), "--policy", "lru", "--cache", "1MiB", "--device", "ssd", "--json"];
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), args].concat())).unwrap();
        runs[0].clone()
    };
    let cawr = sim(&["--ssd.preset", "cawr", "--start", "random"]);
    assert_eq!(cawr["start_state"], "random:1");
    let ssd = &cawr["ssd"];
    assert_eq!((ssd["elements"].as_array().unwrap().len(), ssd["raw_pages"].as_u64()), (4, Some(1 << 20)));
    assert_eq!((ssd["summary_programs"].as_u64(), ssd["redirected_programs"].as_u64()), (Some(0), Some(0)));
    assert!(ssd["cv_writes"].as_f64().unwrap() < 0.001 && ssd["cv_reads_with_moves"].is_f64());
    let lawc = sim(&["--ssd.model", "classic", "--ssd.allocation", "channels", "--start", "random:9"]);
    let setting = |run: &Value| {
        run["settings"].as_array().unwrap().iter().find(|s| s["name"] == "ssd.allocation").map(|s| s["value"].clone())
    };
    assert_eq!((&lawc["start_state"], setting(&lawc)), (&Value::from("random:9"), Some("channels".into())));
    assert_ne!(lawc["ssd"]["elements"], sim(&["--ssd.model", "classic", "--start", "random:9"])["ssd"]["elements"]);

    let refusal = |args: &[&str]| {
        refused(
            &[["sim", "--trace", text(&trace), "--device", "ssd", "--ssd.model", "classic"].as_slice(), args].concat(),
        )
    };
    let channels = ["--ssd.allocation", "channels"];
    let with = |args: &[&'static str]| refusal(&[channels.as_slice(), args].concat());
    assert!(
        with(&["--ssd.copy-back"]).contains("ssd.allocation = channels gives each element one: choose one of them")
    );
    assert!(with(&["--ssd.stride", "64"]).contains("ssd.stride = 64 has no meaning with ssd.allocation = channels"));
    assert!(refusal(&["--ssd.allocation", "dynamic"]).contains("one of static, channels"));
    for start in ["random:", "random:x", "randomly", "steady:", "steady:x"] {
        assert!(refusal(&["--start", start]).contains("full, empty, random[:SEED], steady[:SEED], or aged"), "{start}");
    }
    let none = refused(&["sim", "--trace", text(&trace), "--ssd.allocation", "channels"]);
    assert!(none.contains("'ssd.allocation' has no meaning for device = none"), "{none}");
}

/// Without a device, and on a compacted one, blocks are numbered by first touch; what follows a
/// page is a matter of addresses nevertheless (specs §6.4).
#[test]
fn cawr_goes_by_addresses_with_and_without_a_device() {
    let folder = temporary();
    let trace = folder.path().join("borders.spc");
    // Blocks of 16 pages; the first of each touched in another order than that of addresses, then
    // runs across their borders.
    let trace_of = |blocks: u64, apart: u64| {
        let address = |page: u64| (page / 16 * apart * 16 + page % 16) * 8;
        let mut text = String::new();
        let mut x = 1_u64;
        for i in 0..4000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (page, op) = match i {
                _ if i < blocks => (i * 7 % blocks * 16, 'R'),
                _ => ((x >> 33) % (blocks * 16 - 40), if x >> 60 < 4 { 'R' } else { 'W' }),
            };
            let pages = if i < blocks || x >> 40 & 1 == 1 { 1 } else { 1 + (x >> 50) % 40 };
            for page in page..page + pages {
                writeln!(text, "0,{},4096,{op},{}.{:06}", address(page), i / 10, i % 10 * 100_000).unwrap();
            }
        }
        fs::write(&trace, text).unwrap();
    };
    let counters = ["hits", "evictions", "dirty_pages_flushed", "clean_drops", "memory_accesses", "drain_evictions"];
    let sim = |device: &[&str]| {
        let base = ["sim", "--trace", text(&trace), "--cache", "256KiB", "--pages-per-block", "16", "--json"];
        let policies = ["--policy", "cawr,cawr:cawr_seq=any,cawr:cdl_max=16"];
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), &policies, device].concat())).unwrap();
        let runs = runs.as_array().unwrap().iter();
        runs.map(|run| counters.map(|name| run[name].as_u64().unwrap_or_else(|| panic!("{name}")))).collect::<Vec<_>>()
    };
    let ssd = ["--device", "ssd", "--ssd.preset", "cawr", "--ssd.blocks-per-plane", "64"];
    let compact = [ssd.as_slice(), &["--lba-overflow", "compact"]].concat();
    trace_of(41, 1);
    let by_address = sim(&ssd);
    assert_eq!(sim(&[]), by_address);
    assert_eq!(sim(&compact), by_address);
    // With a gap behind each block no page follows the last one of a block.
    trace_of(41, 2);
    let gaps = sim(&ssd);
    assert_eq!(sim(&[]), gaps);
    assert_eq!(sim(&compact), gaps);
    for (run, other) in by_address.iter().zip(&gaps) {
        assert_ne!(run, other);
    }
}

#[test]
fn log_blocks_are_a_layer_of_the_ssd() {
    let folder = temporary();
    let trace = small_trace(folder.path());
    let sim = |args: &[&str]| {
        let base =
            ["sim", "--trace", text(&trace), "--cache", "1MiB", "--device", "ssd", "--ssd.preset", "lawc", "--json"];
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), args].concat())).unwrap();
        runs
    };
    let count = |run: &Value, name: &str| run["ssd"][name].as_u64().unwrap_or_else(|| panic!("{name} in {run}"));
    let policies = ["--policy", "none,bplru,bplru:padding=never"];
    // The trace overwrites the first of the device's blocks; log blocks enough for all of them
    // would never be merged.
    let few = ["--ssd.log-blocks", "4"];
    for ftl in ["bast", "fast"] {
        let runs = sim(&[policies.as_slice(), &few, &["--ssd.ftl", ftl]].concat());
        let merges = |i: usize| ["switch_merges", "partial_merges", "full_merges"].map(|name| count(&runs[i], name));
        assert!(merges(0)[2] > 0 && merges(2)[2] > 0, "{ftl}: {:?}, {:?}", merges(0), merges(2));
        assert!(merges(1)[0] > 0 && merges(1)[1..] == [0, 0], "{ftl}: {:?}", merges(1));
        assert_eq!((count(&runs[0], "log_blocks"), count(&runs[0], "summary_programs")), (16, 0));
        let settings = runs[0]["settings"].as_array().unwrap();
        assert!(settings.iter().any(|s| s["name"] == "ssd.ftl" && s["value"] == ftl), "{settings:?}");
    }
    let page = sim(&["--policy", "none"]);
    assert!(page[0]["ssd"]["full_merges"].is_null() && page[0]["ssd"]["log_blocks"].is_null());
    assert_eq!(page, sim(&["--policy", "none"]));
    assert_eq!(sim(&["--policy", "none", "--ssd.ftl", "page"])[0]["ssd"], page[0]["ssd"]);
    // The table shows merges where there are any to show.
    for (ftl, has_merges) in [("bast", true), ("page", false)] {
        let base = [
            "sim",
            "--trace",
            text(&trace),
            "--cache",
            "1MiB",
            "--device",
            "ssd",
            "--ssd.preset",
            "lawc",
            "--policy",
            "none",
        ];
        let table = quietly(&[base.as_slice(), &["--ssd.ftl", ftl]].concat());
        assert!(table.contains("full merges") == has_merges, "{table}");
    }
    // Channels, with the layers that choose them.
    let channels = ["--ssd.ftl", "bast", "--ssd.allocation", "channels", "--start", "aged:0.1"];
    for run in sim(&[channels.as_slice(), &["--policy", "cave+bplru,cawr+fab"]].concat()).as_array().unwrap() {
        assert!(count(run, "host_programs") > 0, "{run}");
    }
    // Members of an array can be that too.
    let array = ["--array", "raid5:3", "--policy", "none", "--ssd.ftl", "fast", "--limit", "500"];
    let base = ["sim", "--trace", text(&trace), "--device", "ssd", "--ssd.model", "classic", "--json"];
    let members: Value = serde_json::from_str(&quietly(&[base.as_slice(), &array].concat())).unwrap();
    assert!(members[0]["devices"][0]["flash_writes"].as_u64().unwrap() > 0);

    let refusal = |args: &[&str]| {
        refused(
            &[["sim", "--trace", text(&trace), "--device", "ssd", "--ssd.preset", "lawc"].as_slice(), args].concat(),
        )
    };
    let bast = |args: &[&'static str]| refusal(&[["--ssd.ftl", "bast"].as_slice(), args].concat());
    assert!(refusal(&["--ssd.ftl", "dftl"]).contains("--ssd.ftl = 'dftl': one of page, bast, fast"));
    assert!(refusal(&["--ssd.log-blocks", "4"]).contains("has no meaning with ssd.ftl = page"));
    assert!(bast(&["--ssd.log-blocks", "1000"]).contains("ssd.log-blocks = 1000 is not between 1 and 303"));
    assert!(bast(&["--ssd.copy-back"]).contains("ssd.copy-back = true has no meaning with ssd.ftl = bast"));
    assert!(bast(&["--ssd.summary-page"]).contains("ssd.summary-page = true has no meaning"));
    assert!(bast(&["--ssd.min-free", "3%"]).contains("'ssd.min-free' has no meaning with ssd.ftl = bast"));
    assert!(bast(&["--ssd.collection-batch", "1"]).contains("ssd.collection-batch = 1 has no meaning"));
    assert!(bast(&["--ssd.collection-write-point", "own"]).contains("set it to shared"));
    assert!(refusal(&["--ssd.collection-batch", "0"]).contains("watermark, or a number of blocks from 1 on"));
    assert!(refusal(&["--ssd.collection-write-point", "mine"]).contains("one of shared, own"));
    assert!(bast(&["--ssd.stride", "32"]).contains("give a multiple of pages-per-block"));
    assert!(bast(&["--policy", "cave+bplru"]).contains("set ssd.allocation = channels"));
}

#[test]
fn an_ssd_fits_the_trace_unless_told_otherwise() {
    let folder = temporary();
    let dense = small_trace(folder.path());
    let sim = |trace: &Path, args: &[&str]| {
        let base = [
            "sim",
            "--trace",
            text(trace),
            "--cache",
            "1MiB",
            "--policy",
            "lru",
            "--device",
            "ssd",
            "--ssd.model",
            "classic",
            "--json",
        ];
        let runs: Value = serde_json::from_str(&quietly(&[base.as_slice(), args].concat())).unwrap();
        runs[0].clone()
    };
    let setting = |run: &Value, name: &str| {
        let settings = run["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["name"] == name);
        found.map(|setting| setting["value"].as_str().unwrap().to_owned())
    };
    let bytes = |run: &Value| run["ssd"]["host_pages"].as_u64().unwrap() * 4096;
    // 20 MB of addresses, of which it touches most.
    let fitted = sim(&dense, &[]);
    assert!(fitted["start_state"] == "steady:1" && fitted["ssd"]["start_overwrites"].as_f64() >= Some(2.0));
    assert_eq!(setting(&fitted, "lba-overflow").as_deref(), Some("wrap"));
    assert!((20_000_000..100_000_000).contains(&bytes(&fitted)), "{}", bytes(&fitted));
    assert!(fitted["gc_invocations"].as_u64() > Some(0));
    // What was chosen is told, and gives the same.
    let blocks = setting(&fitted, "ssd.blocks-per-plane").expect("its size is told");
    let again = sim(&dense, &["--ssd.blocks-per-plane", &blocks, "--lba-overflow", "wrap", "--start", "steady:1"]);
    for figures in ["ssd", "response", "input"] {
        assert!(again[figures] == fitted[figures], "{figures}");
    }
    assert!(sim(&dense, &["--ssd.capacity", "fit"]) == fitted);

    // The same, but every other block lies a gibibyte further on.
    let far = folder.path().join("far.spc");
    let lines = fs::read_to_string(&dense).unwrap();
    let moved = lines.lines().map(|line| {
        let mut fields = line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let lba: u64 = fields[1].parse().unwrap();
        fields[1] = (lba + lba / 512 % 2 * (1 << 21)).to_string();
        fields.join(",") + "\n"
    });
    fs::write(&far, moved.collect::<String>()).unwrap();
    let sparse = sim(&far, &[]);
    assert_eq!(setting(&sparse, "lba-overflow").as_deref(), Some("compact"));
    assert!(sparse["input"]["overflowed_requests"] == 0 && bytes(&sparse) < 100_000_000, "{}", bytes(&sparse));

    // A size, and the preset's.
    let large = sim(&dense, &["--ssd.capacity", "300MiB"]);
    assert!((300 << 20..310 << 20).contains(&bytes(&large)), "{}", bytes(&large));
    for keys in [["--ssd.capacity", "preset"], ["--ssd.preset", "lawc"], ["--lba-overflow", "compact"]] {
        assert_eq!(bytes(&sim(&dense, &keys)), 439_488 * 4096, "{keys:?}");
    }

    // A drive fits, too, with all that is its own, and as a whole it needs more memory than there is by default.
    let drive = sim(&dense, &["--ssd.preset", "850evo"]);
    assert!(bytes(&drive) < 250 << 20 && drive["start_state"] == "steady:1", "{}", bytes(&drive));
    assert_eq!(drive["ssd"]["elements"].as_array().map(Vec::len), Some(16));
    let blocks = setting(&drive, "ssd.blocks-per-plane").expect("its size is told");
    let again = sim(&dense, &["--ssd.preset", "850evo", "--ssd.blocks-per-plane", &blocks]);
    assert!(again["ssd"] == drive["ssd"] && again["response"] == drive["response"]);
    let still = sim(&dense, &["--ssd.preset", "850evo", "--ssd.allocation", "static"]);
    assert_eq!(bytes(&still), bytes(&drive), "what a preset says of channels goes with them");

    let refusal = |args: &[&str]| {
        refused(
            &[["sim", "--trace", text(&dense), "--device", "ssd", "--ssd.model", "classic"].as_slice(), args].concat(),
        )
    };
    let whole = refusal(&["--ssd.preset", "850evo", "--ssd.capacity", "preset", "--memory", "100MB"]);
    assert!(whole.contains("raise memory, or give a smaller ssd.capacity"), "{whole}");
    let unknown = refusal(&["--ssd.preset", "860evo"]);
    assert!(unknown.contains("one of lawc, gcar, ") && unknown.contains(", pm9a3, "), "{unknown}");
    assert!(refusal(&["--ssd.idle-first"]).contains("has no meaning with ssd.allocation = static"));
    let capacity = |size| refusal(&["--ssd.capacity", size]);
    assert!(capacity("0").contains("a size such as 512GiB, fit or preset"));
    assert!(capacity("large").contains("a size such as 512GiB, fit or preset"));
    assert!(capacity("100TiB").contains("raw pages are more than 2^32 - 2"));
    let both = ["--ssd.blocks-per-plane", "64"];
    assert!(refusal(&[["--ssd.capacity", "fit"], both].concat()).contains("leave one of them out"));
    assert!(refusal(&[["--ssd.capacity", "1GiB"], both].concat()).contains("leave one of them out"));
    let of_array = refusal(&["--ssd.capacity", "fit", "--array", "raid5:3", "--ssd.blocks-per-plane", "64"]);
    assert!(of_array.contains("'ssd.blocks-per-plane' has no meaning with ssd.capacity = fit"), "{of_array}");
    let reserve = refusal(&["--ssd.capacity", "1GiB", "--ssd.reserve", "1%"]);
    assert!(reserve.contains("raise ssd.reserve"), "{reserve}");
    assert!(refused(&["sim", "--trace", "-", "--device", "ssd", "--ssd.capacity", "fit"]).contains("only once"));
}

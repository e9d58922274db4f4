//! Other simulators on the common trace `rw80`: what they reached, what destage reaches, and why
//! they differ.

use std::fmt::Write;

use crate::parallel;
use destage_sim::buffer::RunResult;
use destage_trace::{Rw80, TraceError, TraceSource};

use crate::run::{EvidenceError, PAGE, StepListener, pair, percent, run};

/// Compares the throughput that another simulator reached on `rw80` with destage's in the setting nearest to
/// it.
struct PeerSpeed {
    name: &'static str,
    start: &'static str,
    /// Gives the other simulator's write amplification.
    theirs: f64,
    /// Pages that it moved or wrote beside the host's, as it printed them or as they follow from
    /// what it printed.
    from: &'static str,
    /// destage's settings beside LAWC's geometry.
    settings: &'static [(&'static str, &'static str)],
    /// Why they differ.
    why: &'static str,
}

const PEERS: &[PeerSpeed] = &[
    PeerSpeed {
        name: "DiskSim 4.0 + MSR SSD",
        start: "full",
        theirs: 4.467_484,
        from: "3,467,484 pages moved",
        settings: &[("start", "full")],
        why: "DiskSim never takes its first write point's block off its count of free blocks, so its threshold of 102 is one of \
              101: see the next row",
    },
    PeerSpeed {
        name: "DiskSim 4.0 + MSR SSD",
        start: "full",
        theirs: 4.467_484,
        from: "3,467,484 pages moved",
        settings: &[("start", "full"), ("ssd.min-free", "4.96%")],
        why: "the first victims: an address-ordered fill leaves ties that the two break differently",
    },
    PeerSpeed {
        name: "MQSim (writes only; it crashes when reads are mixed in)",
        start: "empty",
        theirs: 1.425_9,
        from: "14,516 collections of 29.34 pages",
        settings: &[("start", "empty"), ("ops", "writes"), ("ssd.summary-page", "false"), ("ssd.copy-back", "true")],
        why: "MQSim collects one block per run and keeps collection's write point apart from the host's, a block less per plane; \
              and its number of pages per run is rounded",
    },
    PeerSpeed {
        name: "SimpleSSD 2.0",
        start: "empty",
        theirs: 1.717_646,
        from: "1,717,646 programs",
        settings: &[
            ("start", "empty"),
            ("ssd.summary-page", "false"),
            ("ssd.elements", "1"),
            ("ssd.planes", "1"),
            ("pages-per-block", "1024"),
            ("ssd.blocks-per-plane", "512"),
            ("ssd.min-free", "10%"),
        ],
        why: "SimpleSSD's unit is a superblock over all 16 planes (1,024 pages here), and it collects up to a second, higher \
              threshold; with one at 10 % of the superblocks we come nearest. The rest lies in its victim choice and in how far a \
              collection goes, which its output does not show",
    },
    PeerSpeed {
        name: "SSDSim",
        start: "empty",
        theirs: 2.005_439,
        from: "2,005,439 programs",
        settings: &[
            ("start", "empty"),
            ("ssd.summary-page", "false"),
            ("ssd.copy-back", "true"),
            ("ssd.min-free", "10%"),
        ],
        why: "SSDSim first writes every page that the trace reads before it writes it, so it starts partly full and counts those \
              programs; and its threshold is a share of free pages, not blocks, per plane",
    },
    PeerSpeed {
        name: "FlashSim (DFTL)",
        start: "empty",
        theirs: 22.24,
        from: "22.24 M programs of its FTL",
        settings: &[("start", "empty"), ("ssd.summary-page", "false")],
        why: "a demand-paged map: under random writes nearly every host write also writes a page of the map, which destage's \
              page map in memory does not have; the rest of the factor is FlashSim's own and not explained by what it prints",
    },
];

/// `rw80` on destage in the setting that is nearest to each of them, as Markdown.
pub(crate) fn compare(step: StepListener) -> Result<String, EvidenceError> {
    step("rw80 beside other simulators");
    let mut out = String::from(
        "\n## The common trace `rw80` beside other simulators\n\n\
         A million writes and 250,000 reads of 4 KiB, uniform over 435,200 pages, Poisson 2 ms apart, given to all of them; LAWC's \
         geometry (4 elements of 4 planes of 512 blocks of 64 pages of 4 KiB, 15 % reserve, collection at 5 % free blocks). Write \
         amplification is (host programs + pages moved) / host programs, summary pages apart. Most of what separates the \
         simulators is the start state: 2.3 overwrites do not bring an empty device to its steady state. None of them says so.\n\n\
         | start | as specified | without summary pages | at 10 % free | at 14 % free |\n|---|--:|--:|--:|--:|\n",
    );
    let amplification = |settings: &[(&str, &str)]| -> Result<f64, EvidenceError> {
        Ok(rw80(settings)?.ssd.and_then(|ssd| ssd.collection_amplification).expect("an SSD that was written to"))
    };
    let no_summary = ("ssd.summary-page", "false");
    for start in ["full", "empty"] {
        let start = ("start", start);
        let variants = [
            vec![start],
            vec![start, no_summary],
            vec![start, no_summary, ("ssd.min-free", "10%")],
            vec![start, no_summary, ("ssd.min-free", "14%")],
        ];
        let cells = parallel::map(&variants, |settings| amplification(settings))?;
        let _ = write!(out, "| {} |", start.1);
        for cell in cells {
            let _ = write!(out, " {cell:.4} |");
        }
        out.push('\n');
    }
    out.push_str(
        "\n| simulator | start | its figure | from | destage, nearest setting | deviation | reason |\n|---|---|--:|---|--:|--:|---|\n",
    );
    let ours: Vec<f64> = parallel::map(PEERS, |peer| amplification(peer.settings))?;
    for (peer, ours) in PEERS.iter().zip(ours) {
        let settings: Vec<String> = peer.settings.iter().map(|(key, value)| format!("`{key} = {value}`")).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {:.4} | {} | {ours:.4} ({}) | {} | {} |",
            peer.name,
            peer.start,
            peer.theirs,
            peer.from,
            settings.join(", "),
            percent(ours / peer.theirs - 1.0),
            peer.why,
        );
    }
    out.push_str(&responses()?);
    Ok(out)
}

/// destage's result on `rw80` over LAWC's geometry with these settings.
fn rw80(settings: &[(&str, &str)]) -> Result<RunResult, EvidenceError> {
    let mut pairs =
        vec![pair("policy", "none"), pair("cache", PAGE), pair("device", "ssd"), pair("ssd.model", "classic")];
    pairs.extend(settings.iter().map(|&(key, value)| (key, value.to_owned())));
    let mut open = || -> Result<Box<dyn TraceSource>, TraceError> { Ok(Box::new(Rw80::new())) };
    Ok(run("rw80", &pairs, &mut open)?.remove(0))
}

/// `DiskSim`'s mean response time on `rw80`, in ms.
const DISKSIM_MEAN: f64 = 9.670_23;

/// Response times beside `DiskSim`'s, with as many commands on the device as it takes and without a
/// limit.
fn responses() -> Result<String, EvidenceError> {
    let mut out = format!(
        "\nDiskSim's mean response time is {DISKSIM_MEAN} ms. Its device takes 20 commands at a time (`Max queue length` of the MSR \
         extension's sample configuration), and the rest waits in its driver, in order, so that a command for an idle element \
         may wait behind those for one that collects. Beside it destage with `start = full`, `ssd.min-free = 4.96%`; what is \
         left is less than what the order in which the planes' blocks are numbered can move it by.\n\n\
         | `ssd.queue-depth` | mean, ms | deviation | p50 | p99 | max |\n|--:|--:|--:|--:|--:|--:|\n"
    );
    let depths = ["none", "20"];
    let runs = parallel::map(&depths, |depth| {
        rw80(&[("start", "full"), ("ssd.min-free", "4.96%"), ("ssd.queue-depth", depth)])
    })?;
    for (depth, run) in depths.iter().zip(runs) {
        let all = run.response.and_then(|response| response.all).expect("requests, and no saturation");
        let mean = all.mean / 1e6;
        let [p50, p99, max] = [all.p50, all.p99, all.max].map(|time| time as f64 / 1e6);
        let deviation = percent(mean / DISKSIM_MEAN - 1.0);
        let _ = writeln!(out, "| {depth} | {mean:.5} | {deviation} | {p50:.3} | {p99:.2} | {max:.2} |");
    }
    Ok(out)
}

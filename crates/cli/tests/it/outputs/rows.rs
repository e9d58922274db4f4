//! Every argument by which a command is told to write files, with calls that use it.

/// Names the kind of output that an argument names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputKind {
    /// A file.
    File,
    /// A folder of files, which is created if it does not exist; some of them.
    Report(&'static [&'static str]),
    /// A folder that must be there, and into which files are written; some of them.
    Pages(&'static [&'static str]),
}

/// An output of a command.
#[derive(Debug)]
pub struct Row {
    /// The command.
    pub command: &'static str,
    /// The argument, as the help calls it.
    pub argument: &'static str,
    /// The argument as it is given: `{}` is the output.
    pub option: &'static str,
    pub kind: OutputKind,
    /// Calls without the output that succeed, and which of the words in braces are inputs of
    /// theirs.
    pub calls: &'static [(&'static str, &'static [&'static str])],
    /// Calls without the output that fail.
    pub failing: &'static [&'static str],
}

const SIM: &[(&str, &[&str])] = &[
    ("sim --scenario {scenario} --trace {trace} --policy lru --cache 1MiB", &["{scenario}", "{trace}"]),
    ("sim --workload {workload} --policy lru --cache 1MiB", &["{workload}"]),
    ("sim --scenario {naming} --policy lru --cache 1MiB", &["{naming}", "{trace}"]),
];
const SIM_FAILS: &[&str] = &[
    "sim --trace {broken} --policy lru --cache 1MiB",
    "sim --trace {ambiguous} --policy lru --cache 1MiB",
    "sim --trace {nowhere} --policy lru --cache 1MiB",
    "sim --trace {trace} --policy nothing --cache 1MiB",
];
const RESULTS: &[&str] = &["index.html", "results.json"];
const REPRODUCE: &[(&str, &[&str])] =
    &[("reproduce {paper} --traces {traces}", &["{paper}", "{original}", "{workload}"])];
const REPRODUCE_FAILS: &[&str] =
    &["reproduce {wrong-paper} --traces {traces}", "reproduce {paper} --traces {broken-traces}"];

const ADVISE: &[(&str, &[&str])] = &[
    ("advise --scenario {scenario} --trace {trace} --policy lru --budget 1MiB", &["{scenario}", "{trace}"]),
    ("advise --workload {workload} --policy lru --budget 1MiB", &["{workload}"]),
];
const ADVISE_FAILS: &[&str] = &[
    "advise --trace {broken} --policy lru",
    "advise --trace {ambiguous} --policy lru",
    "advise --trace {nowhere} --policy lru",
    "advise --trace {trace} --policy nothing",
];

/// All of them.
pub const ROWS: &[Row] = &[
    Row {
        command: "advise",
        argument: "--json",
        option: "--json={}",
        kind: OutputKind::File,
        calls: ADVISE,
        failing: ADVISE_FAILS,
    },
    Row {
        command: "advise",
        argument: "--report",
        option: "--report={}",
        kind: OutputKind::Report(RESULTS),
        calls: ADVISE,
        failing: ADVISE_FAILS,
    },
    Row {
        command: "sim",
        argument: "--json",
        option: "--json={}",
        kind: OutputKind::File,
        calls: SIM,
        failing: SIM_FAILS,
    },
    Row {
        command: "sim",
        argument: "--csv",
        option: "--csv={}",
        kind: OutputKind::File,
        calls: SIM,
        failing: SIM_FAILS,
    },
    Row {
        command: "sim",
        argument: "--latency-log",
        option: "--latency-log={}",
        kind: OutputKind::File,
        calls: SIM,
        failing: SIM_FAILS,
    },
    Row {
        command: "sim",
        argument: "--report",
        option: "--report={}",
        kind: OutputKind::Report(RESULTS),
        calls: SIM,
        failing: SIM_FAILS,
    },
    Row {
        command: "report",
        argument: "--out",
        option: "--out={}",
        kind: OutputKind::Report(RESULTS),
        calls: &[("report {results} {results2}", &["{results}", "{results2}"])],
        failing: &["report {results} {broken}", "report {nowhere}"],
    },
    Row {
        command: "reproduce",
        argument: "--markdown",
        option: "--markdown={}",
        kind: OutputKind::File,
        calls: REPRODUCE,
        failing: REPRODUCE_FAILS,
    },
    Row {
        command: "reproduce",
        argument: "--summary",
        option: "--summary={}",
        kind: OutputKind::File,
        calls: REPRODUCE,
        failing: REPRODUCE_FAILS,
    },
    Row {
        command: "reproduce",
        argument: "--report",
        option: "--report={}",
        kind: OutputKind::Report(&["index.html", "claims.csv"]),
        calls: REPRODUCE,
        failing: REPRODUCE_FAILS,
    },
    // It reads nothing, and nothing that it is given makes it fail; a full disk does.
    Row {
        command: "validate",
        argument: "--out",
        option: "--out={}",
        kind: OutputKind::File,
        calls: &[("validate", &[])],
        failing: &[],
    },
    Row {
        command: "man",
        argument: "--out",
        option: "--out={}",
        kind: OutputKind::Pages(&["destage.1", "destage-sim.1"]),
        calls: &[("man", &[])],
        failing: &[],
    },
    Row {
        command: "trace convert",
        argument: "<TO>",
        option: "{}",
        kind: OutputKind::File,
        calls: &[
            ("trace convert {trace}", &["{trace}"]),
            ("trace convert --to disksim {trace}", &["{trace}"]),
            ("trace convert --to oracle-general:op=all {trace}", &["{trace}"]),
            ("trace convert {recording}", &["{part}"]),
        ],
        failing: &[
            "trace convert {broken}",
            "trace convert --to disksim {broken}",
            "trace convert --to oracle-general:op=all {broken}",
            "trace convert {ambiguous}",
            "trace convert --to disksim:nothing=1 {trace}",
        ],
    },
    Row {
        command: "trace synth",
        argument: "<TO>",
        option: "{}",
        kind: OutputKind::File,
        calls: &[
            ("trace synth --scenario {settings} --length 200000", &["{settings}"]),
            ("trace synth --workload {workload}", &["{workload}"]),
        ],
        failing: &["trace synth --workload {broken}", "trace synth --footprint nothing"],
    },
    Row {
        command: "trace record",
        argument: "<OUT>",
        option: "{}",
        kind: OutputKind::File,
        calls: &[("trace record --duration 1s {device}", &["{device}"])],
        failing: &["trace record /dev/null", "trace record {nowhere}"],
    },
];

/// Arguments that name what is read, by command.
pub const READ: &[(&str, &str)] = &[
    ("advise", "--scenario"),
    ("advise", "--trace"),
    ("advise", "--workload"),
    ("sim", "--scenario"),
    ("sim", "--trace"),
    ("sim", "--workload"),
    ("sim", "--resume"),
    ("sweep", "<FILE>"),
    ("sweep", "--out"),
    ("report", "<FILE>..."),
    ("reproduce", "--traces"),
    ("reproduce", "--resume"),
    ("ssd fit", "<RESULT>"),
    ("trace find", "<DIR>"),
    ("trace find", "--known"),
    ("trace stat", "<FILE>..."),
    ("trace mrc", "<FILE>..."),
    ("trace convert", "<FROM>"),
    ("trace head", "<FILE>"),
    ("trace synth", "--scenario"),
    ("trace synth", "--workload"),
    ("trace workloads", "[NAME|FILE]"),
    ("trace record", "<DEVICE>"),
];

/// Arguments that name files of arrays, sockets, and what a service writes: `tests/it/service` tries them.
pub const SERVED: &[(&str, &str)] = &[
    ("create", "--member"),
    ("create", "--cache-device"),
    ("create", "--nvram"),
    ("replace", "[FILE]"),
    ("attach", "[FILE]"),
    ("serve", "--socket"),
    ("serve", "--record"),
];

//! Lists the ends of every command's help and manual page: calls to begin from, and exit statuses.
//!
//! The calls stand here and not with the commands, so a test finds all of them: each is parsed as it would be on a
//! command line.

use clap::Command;

use crate::screen::wrap;

/// A call, and what it is for.
pub struct CallExample {
    /// Holds the call as it is typed; other programs may be before and after it in a pipe.
    pub call: &'static str,
    /// Describes what the call does.
    pub what: &'static str,
}

const fn example(call: &'static str, what: &'static str) -> CallExample {
    CallExample { call, what }
}

/// The commands, by their words without `destage`, with examples of each.
const EXAMPLES: &[(&str, &[CallExample])] = &[
    (
        "",
        &[
            example("destage advise mine.blkparse", "which buffer serves a trace best, and how large it should be"),
            example("destage sim mine.blkparse --device ssd --cache 4MiB,16MiB", "some buffers beside each other"),
            example(
                "destage sim --workload exchange --device ssd --report page",
                "a page with charts, without a trace",
            ),
            example("destage policies gcar+lb-clock", "what a policy does, and its parameters"),
        ],
    ),
    (
        "advise",
        &[
            example("destage advise mine.blkparse", "the buffer of an SSD, by the mean response time"),
            example(
                "destage advise mine.blkparse --ssd pm9a3 --objective p99.9 --report page",
                "by the tail over a drive of today, with the runs on a page",
            ),
            example(
                "destage advise mine.blkparse --array raid5:5 --budget 10%",
                "the cache of the host in front of five disks",
            ),
            example("destage advise mine.blkparse --policy lru,arc,cflru --json=advice.json", "of some policies only"),
        ],
    ),
    (
        "sim",
        &[
            example(
                "destage sim mine.blkparse --device ssd --cache 4MiB,16MiB",
                "some policies at two sizes, as a table",
            ),
            example(
                "destage sim mine.blkparse --policy lru,arc --warmup 20% --json=runs.json",
                "hit ratios alone, measured once the buffer is warm, into a file",
            ),
            example(
                "destage sim mine.blkparse --array raid5:5 --policy none,kdd --cache 1GiB",
                "a cache of the host in front of five disks",
            ),
            example(
                "destage sim --workload exchange --device ssd --print-scenario >mine.toml",
                "all settings as a file for `destage sim --scenario mine.toml`",
            ),
        ],
    ),
    (
        "sweep",
        &[
            example("destage sweep grid.toml --out grid", "all runs of a grid, as rows of grid/sweep.parquet"),
            example(
                "destage sweep grid.toml --out grid --json",
                "how it went for programs; what is there is not run again",
            ),
            example("destage sweep grid.toml --out grid --on tcp://scheduler:8786", "on workers of a Dask cluster"),
        ],
    ),
    (
        "policies",
        &[
            example("destage policies", "all of them"),
            example("destage policies gcar+lb-clock", "what one does, also in layers, and a call that runs it"),
            example("destage policies kdd --json", "the same for programs"),
        ],
    ),
    (
        "schema",
        &[
            example("destage schema", "the fields of `destage sim --json`"),
            example("destage schema --array --json", "those of runs over arrays, for programs"),
            example("destage schema --advise", "those of `destage advise --json`"),
            example("destage schema --stat", "those of `destage trace stat --json`"),
        ],
    ),
    (
        "report",
        &[
            example("destage report monday.json friday.json --out page", "two results on one page"),
            example("destage report monday.json friday.json --compare", "the same two side by side, run by run"),
            example(
                "destage sim mine.blkparse --device ssd --json | destage report - --out page",
                "a page from a pipe; `destage sim --report page` writes the same",
            ),
        ],
    ),
    (
        "trace",
        &[
            example("destage trace stat mine.blkparse", "what a trace is like"),
            example("destage trace convert mine.blkparse mine.destage", "compact, and read fastest"),
            example("destage trace record /dev/nvme0n1 day.destage --duration 1h", "a recording of a live device"),
        ],
    ),
    (
        "ssd",
        &[
            example("destage ssd fit result.json --capacity 960GB", "what the model needs to be that drive"),
            example(
                "destage ssd fit result.json --capacity 1.92TB --dies 32 --planes 4 >mine.toml",
                "of a drive whose dies are known, as a scenario file",
            ),
        ],
    ),
    (
        "ssd fit",
        &[
            example(
                "destage ssd fit fio.json --capacity 960GB --command-rate 580000 --link 6.8GB >a.toml",
                "settings of the drive that fio measured, as a scenario file",
            ),
            example("destage ssd fit fio.json --capacity 7.68TB --raw 8TiB --pages-per-word-line 4", "of one with QLC"),
        ],
    ),
    (
        "trace stat",
        &[
            example("destage trace stat mine.blkparse", "requests, sizes, shares, footprint"),
            example("destage trace stat volume0.csv volume1.csv.gz --format msr --json", "two traces, for programs"),
            example("destage trace stat mine.blkparse --locality=both", "also how far apart uses of a page are"),
        ],
    ),
    (
        "trace mrc",
        &[
            example("destage trace mrc mine.blkparse", "LRU's hits, the footprint, and where the curve bends"),
            example("destage trace mrc mine.blkparse --sizes 1MiB..1GiB/8", "at eight sizes that you choose"),
            example(
                "destage trace mrc mine.blkparse --policy lru,s3-fifo,lb-clock --rate 5%",
                "other policies too, estimated from a sixteenth of the pages",
            ),
            example(
                "destage trace mrc mine.blkparse --sizes 1%,5%,auto --ops writes --json",
                "of writes, for programs",
            ),
        ],
    ),
    (
        "trace find",
        &[
            example("destage trace find /where/msr/and/financial/lie", "which of the papers' traces are there"),
            example("destage trace find prn_0.csv.gz", "whether a file is what its name says"),
            example("destage trace find /where/they/lie --json", "for programs"),
        ],
    ),
    (
        "trace convert",
        &[
            example("destage trace convert mine.blkparse mine.destage", "compact, and read fastest"),
            example("destage trace convert mine.destage mine.trace --to mqsim", "a trace for another simulator"),
            example(
                "blkparse -i sda -o - | destage trace convert - sda.destage --format blkparse",
                "what another program prints",
            ),
        ],
    ),
    (
        "trace head",
        &[
            example("destage trace head mine.blkparse", "the first ten requests"),
            example(
                "destage trace head mine.csv.xz --format msr -n 1000 >first.csv",
                "the first thousand, into a file",
            ),
        ],
    ),
    (
        "trace synth",
        &[
            example(
                "destage trace synth zipf.destage --footprint zipf:1.1 --read 30 --length 60s",
                "a minute of skewed requests, 30 % of them reads",
            ),
            example(
                "destage trace synth small.destage --workload exchange --workload-set length=10000",
                "the beginning of a built-in workload",
            ),
            example("destage trace synth - --sizes 4KiB:3,64KiB:1 | destage trace stat -", "into a pipe"),
        ],
    ),
    (
        "trace workloads",
        &[
            example("destage trace workloads", "all of them"),
            example("destage trace workloads exchange", "where one comes from, and what is assumed"),
        ],
    ),
    (
        "trace record",
        &[
            example("destage trace record /dev/nvme0n1 day.destage --duration 1h", "an hour"),
            example("destage trace record /dev/loop0 build.destage -- make -j8", "while a command runs"),
            example(
                "destage trace record /dev/sda - --limit 1000000 | ssh host 'cat >sda.destage'",
                "a million requests, kept elsewhere",
            ),
        ],
    ),
    (
        "trace formats",
        &[
            example("destage trace formats", "what can be read and written"),
            example("destage trace formats --color never | grep -i msr", "one of them"),
        ],
    ),
    (
        "reproduce",
        &[
            example("destage reproduce lb-clock", "its claims beside what is measured"),
            example("destage reproduce gcar --traces umass --report page", "over the original traces, as a page"),
            example("destage reproduce all --markdown=reproduction.md", "everything, as text"),
        ],
    ),
    (
        "create",
        &[
            example("destage create array --dev", "a small array to try things with"),
            example(
                "destage create array --level raid5:5 --member-size 1GiB --policy kdd --cache 256MiB",
                "with a cache of one's own choice",
            ),
            example(
                "destage create array --level raid6:8 --member-size 10GiB --policy lawc --cache 64MiB",
                "a write cache, in the NVRAM",
            ),
            example(
                "destage create array --adopt --member /dev/sdb --member /dev/sdc --member /dev/sdd",
                "an array of md's with all that it holds",
            ),
        ],
    ),
    (
        "assemble",
        &[
            example("destage assemble array", "how fresh its members are; changes nothing"),
            example("destage assemble array --force", "go on with the freshest ones"),
        ],
    ),
    (
        "serve",
        &[
            example("destage serve array", "at array/nbd.sock, until destage stop or Ctrl-C"),
            example("destage serve array --tcp 127.0.0.1:10809 --name disk", "over TCP, under a name"),
            example("destage serve array --run ./test-it.sh", "while a command runs, which finds $uri"),
            example("destage serve array --record live.destage", "and write down what is asked for"),
        ],
    ),
    (
        "status",
        &[
            example("destage status array", "devices, cache, clients and requests"),
            example("destage status array --json", "the same and more, for programs"),
        ],
    ),
    (
        "top",
        &[
            example("destage top array", "shows the array's requests, hits and devices each second"),
            example("destage top array --interval 10s --looks 6 >minute.txt", "writes six looks to a file"),
        ],
    ),
    (
        "flush",
        &[
            example("destage flush array", "write back what members have not"),
            example("destage flush /srv/array/array.toml", "the same, by the description"),
        ],
    ),
    (
        "replace",
        &[
            example("destage replace array 2 /dev/sdf", "a disk in the place of member 2"),
            example("destage replace array cache", "the cache's own file, made anew"),
        ],
    ),
    (
        "fail",
        &[
            example("destage fail array 2", "member 2, before its disk is pulled"),
            example("destage fail array 2 --force", "though the level cannot do without it"),
        ],
    ),
    (
        "detach",
        &[
            example("destage detach array", "when this returns the members have all"),
            example("destage detach array --force", "at once, whatever only the cache has"),
        ],
    ),
    (
        "attach",
        &[
            example("destage attach array /dev/nvme1n1", "another SSD as the cache"),
            example("destage attach array", "the file that it had, made anew"),
        ],
    ),
    (
        "scrub",
        &[
            example("destage scrub array", "compare all rows, beside requests"),
            example("destage scrub array --rate 20MiB --from 512GiB", "slowly, and on from where one has ended"),
            example("destage scrub array --repair", "make anew the parity or copies that differ"),
        ],
    ),
    (
        "stop",
        &[
            example("destage stop array", "when this returns nothing is left to be recovered"),
            example("destage stop array --control control.sock", "where the orders are taken elsewhere"),
        ],
    ),
    (
        "validate",
        &[
            example("destage validate", "some minutes; what fails is named at the end"),
            example("destage validate --out validation.md", "the same as a file"),
        ],
    ),
    (
        "completions",
        &[
            example(
                "destage completions bash >~/.local/share/bash-completion/completions/destage",
                "for yourself; for all, /usr/share/bash-completion/completions/destage",
            ),
            example("destage completions zsh >~/.zfunc/_destage", "where ~/.zfunc is in fpath"),
        ],
    ),
    (
        "man",
        &[
            example("destage man trace stat | man -l -", "reads one page"),
            example("destage man --out ~/.local/share/man/man1", "writes all of them; the folder must exist"),
        ],
    ),
];

/// Lists the exit statuses.
pub const STATUSES: &[(&str, &str)] = &[
    (
        "0",
        "Done; also where whoever reads the output has gone, as head does, and where a signal ends a recording, which is then complete.",
    ),
    (
        "1",
        "Failed: the standard error says why, and files are as they were before. Where checks of validate fail, or the command that \
         is recorded, what was asked for is written all the same.",
    ),
    (
        "2",
        "The command line is not understood: an argument that there is not, or one that is missing. Nothing was done.",
    ),
    (
        "3",
        "destage status and top: the array is degraded. destage scrub: rows are not consistent, or too much of them is lost to tell.",
    ),
    ("4", "destage status and top: the array has failed, or nothing is served any more."),
    ("129", "Ended by SIGHUP; files are as they were before."),
    ("130", "Ended by SIGINT, which is Ctrl-C; likewise."),
    ("143", "Ended by SIGTERM; likewise."),
];

/// The examples of the command with these words.
pub fn of(words: &str) -> &'static [CallExample] {
    EXAMPLES.iter().find(|(command, _)| *command == words).map_or(&[], |(_, examples)| *examples)
}

/// The command, with examples at the end of its help and of that of each command in it.
pub fn add(root: Command) -> Command {
    below(root, "")
}

fn below(mut command: Command, words: &str) -> Command {
    let inner: Vec<_> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    for name in inner {
        let words = format!("{words} {name}").trim().to_owned();
        command = command.mut_subcommand(name, |inner| below(inner, &words));
    }
    let header = *command.get_styles().get_header();
    let title = |title: &str| format!("{header}{title}:{header:#}");
    let mut lines: Vec<String> = command.get_after_help().map(|own| format!("{own}\n")).into_iter().collect();
    lines.push(title("Examples"));
    lines.extend(of(words).iter().map(|CallExample { call, what }| format!("  {call}\n      {what}")));
    if words.is_empty() {
        lines.push(format!("\n{}", title("Exit status")));
        for (status, meaning) in STATUSES {
            let meaning = wrap(meaning, 73).join("\n       ");
            lines.push(format!("  {status:<3}  {meaning}"));
        }
    }
    command.after_help(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;

    /// The words of the part of a pipe that is a call of ours, without redirections.
    fn words(call: &str) -> Vec<&str> {
        let own = call.split(" | ").find(|part| part.starts_with("destage ")).expect("a call of destage");
        own.split(' ').filter(|word| !word.starts_with('>')).collect()
    }

    /// Every command by its words.
    fn all(command: &Command, at: &str, into: &mut Vec<String>) {
        into.push(at.to_owned());
        for inner in command.get_subcommands() {
            all(inner, format!("{at} {}", inner.get_name()).trim(), into);
        }
    }

    #[test]
    fn every_command_has_examples_that_it_understands() {
        let root = commands::command();
        let mut names = Vec::new();
        all(&root, "", &mut names);
        assert!(names.len() > 15, "{names:?}");
        let known: Vec<_> = EXAMPLES.iter().map(|(command, _)| (*command).to_owned()).collect();
        for name in &known {
            assert!(names.contains(name), "there is no command '{name}'");
        }
        for name in &names {
            let examples = of(name);
            assert!((2..=4).contains(&examples.len()), "destage {name} needs two to four examples");
            for CallExample { call, what } in examples {
                let words = words(call);
                let own = format!("destage {name}");
                assert!(call.contains(own.trim()), "{call}: of destage {name}");
                assert!(!what.is_empty() && !what.ends_with('.') && call.len() <= 84 && what.len() <= 74, "{call}");
                if let Err(error) = root.clone().try_get_matches_from(&words) {
                    panic!("{call}: {error}");
                }
            }
        }
    }

    #[test]
    fn examples_are_told_from_what_is_around_them() {
        assert_eq!(words("a -b - | destage trace stat - >x"), ["destage", "trace", "stat", "-"]);
        let refused = commands::command().try_get_matches_from(words("destage sim --polcy lru"));
        assert!(refused.is_err(), "what is misspelt is not understood");
    }
}

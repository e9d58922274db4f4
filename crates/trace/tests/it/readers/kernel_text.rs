//! The text of the kernel's block events, and of the tools that print them.

use super::*;

/// Returns what a text holds, whose format is found or given.
fn ranges(text: &str, format: &str) -> Vec<(u64, Op, u64, u64, bool)> {
    let read = read(text, format, false).unwrap_or_else(|error| panic!("{format}: {error}"));
    read.0.iter().map(|r| (r.time.0, r.op, r.offset, r.len, r.fua)).collect()
}

/// Holds the case `ftrace-text`.
#[test]
fn the_text_of_ftrace_and_of_perf_script_is_read() {
    let ftrace = "# tracer: nop\n\
                  #\n\
                  #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n     \
                  kworker/0:1-100     [000] .....  1000.000000: block_rq_issue: 8,0 R 4096 () 1000 + 8 [kworker/0:1]\n     \
                  fio-2211            [001] d..2.  1000.000500: block_rq_issue: 8,0 W 8192 () 2000 + 16 none,0,0 [fio]\n     \
                  kworker/0:1-100     [000] .....  1000.001000: block_rq_complete: 8,0 R () 1000 + 8 [0]\n     \
                  fio-2211            [001] d..2.  1000.002500: block_rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [fio]\n";
    let right = [(0, R, 512_000, 4096, false), (500_000, W, 1_024_000, 8192, false), (2_500_000, Flush, 0, 0, false)];
    let perf = "         fio  2211 [001]  1000.000500: block:block_rq_issue: 8,0 W 8192 () 2000 + 16 [fio]\n         \
                fio  2211 [001]  1000.002500: block:block_rq_issue: 8,0 W 4096 () 4000 + 8 [fio]\n";
    let perf_right = [(0, W, 1_024_000, 8192, false), (2_000_000, W, 2_048_000, 4096, false)];
    for format in ["", "ftrace", "trace-cmd", "perf-script"] {
        assert_eq!(ranges(ftrace, format), right, "{format}");
        assert_eq!(ranges(perf, format), perf_right, "{format}");
    }
    let mut trace = memory(ftrace, &OpenOptions::default()).unwrap();
    drain(&mut trace).unwrap();
    assert_eq!((trace.format(), trace.volume_names()), (FormatId::Ftrace, &["8,0".to_owned()][..]));
}

#[test]
fn every_layout_of_a_line_is_read() {
    let issue = "block_rq_issue: 8,16 WFS 4096 () 8 + 8 [x]";
    for start in [
        "fio-2211 [001] 1000.000500: ",
        "fio-2211    [001] d..2.  1000.000500: ",
        "<idle>-0       [003] d.h3. 1000.000500: ",
        "fio-2211  (   2211) [001] d..2.  1000.000500: ",
        "Web Content-2211 [001] 1000.000500: ",
        // trace-cmd report -l, ftrace's latency format, perf without a processor, with a thread, and a period.
        "fio-2211  1d..2. 1000.000500: ",
        "fio-2211  1d..2.   500us : ",
        "fio-2211  1d..2.   500us+: ",
        "fio 2211 1000.000500: ",
        "Web Content  2211/2213 [001]  1000.000500:          1 ",
        "a: b-2211 [001] 1000.000500123: ",
    ] {
        for name in ["", "block:"] {
            let text = format!("{start}{name}{issue}\n{start}{name}{issue}\n");
            assert_eq!(ranges(&text, ""), [(0, W, 4096, 4096, true); 2], "{text}");
        }
    }
    let line = |event: &str| format!("fio-1 [000] 1.000000: {event}\n");
    let one = |event: &str| ranges(&line(event), "ftrace");
    // Old priorities and new, a process with brackets and blanks, a command, a process that is called like one.
    for end in ["[fio]", "none,0,0 [fio]", "rt,4 [highpool[1]]", "be,0,4 [Web Content]"] {
        assert_eq!(one(&format!("block_rq_issue: 8,0 R 4096 () 8 + 8 {end}")), [(0, R, 4096, 4096, false)], "{end}");
    }
    let bio = line("block_bio_queue: 8,0 FWFS 8 + 8 [(sd-pam)]");
    assert_eq!(ranges(&bio, "ftrace:event=Q"), [(0, Flush, 0, 0, false), (0, W, 4096, 4096, true)]);
    let done = line("block_rq_complete: 8,0 DS () 8 + 8 none,0,0 [-5]");
    assert_eq!(ranges(&done, "ftrace:event=C"), [(0, Discard, 4096, 4096, false)]);
    // Writing zeroes has no letter; a command passed through has no sectors.
    let text = line("block_rq_issue: 8,0 N 36 (12 00 00 00 24 00) 0 + 0 [smartctl]")
        + &line("block_rq_issue: 8,0 NS 8192 () 16 + 16 [mkfs]");
    assert_eq!(ranges(&text, ""), [(0, W, 8192, 8192, false)]);
    // The tracer blk, whose flush has no range.
    let blk = line("  8,0    Q  WS 8 + 8 [sync]") + &line("8,0 D WS 8 + 8 [sync]") + &line("8,0 D FN [sync]");
    assert_eq!(ranges(&blk, ""), [(0, W, 4096, 4096, false), (0, Flush, 0, 0, false)]);
}

#[test]
fn other_lines_and_events_are_passed_over() {
    let text = "version = 7\n\
                CPU 3 is empty\n\
                cpus=4\n\
                # a comment\n\
                fio-1 [000] 1.000000: sched_switch: prev_comm=fio prev_pid=1 ==> next_comm=x\n\
                fio-1 [000] 1.000000: ktime_get <-clockevents_program_event\n\
                CPU:1 [LOST 12 EVENTS]\n\
                fio-1 [000] 1.000000: block_plug: [fio]\n\
                fio-1 [000] 1.000001: block_rq_issue: 8,0 R 4096 () 8 + 8 [fio]\n\
                fio-1 [000] 1.000001: <stack trace>\n \
                => blk_mq_start_request\n\
                \tffffffff8141d3a1 blk_mq_start_request+0x111 ([kernel.kallsyms])\n\
                fio-1 [000] 1.000002: block_rq_issue: 8,0 R 4096 () 16 + 8 [fio]\n";
    assert_eq!(ranges(text, ""), [(0, R, 4096, 4096, false), (1000, R, 8192, 4096, false)]);
    let queued =
        "fio-1 [000] 1.0: block_bio_queue: 8,0 R 8 + 8 [fio]\nfio-1 [000] 1.0: block_getrq: 8,0 R 8 + 8 [fio]\n";
    assert_eq!(
        error(queued, ""),
        "memory: holds no event of kind D, but 1 of G, 1 of Q; use --format ftrace:event=Q or --format ftrace:event=G"
    );
    let other = "fio-1 [000] 1.000000: sched_wakeup: comm=fio pid=1\n";
    assert_eq!(error(other, ""), "memory: holds 1 events, none of which is of the block layer, such as block_rq_issue");
}

#[test]
fn malformed_events_are_errors() {
    let wrong = |event: &str| error(format!("fio-1 [000] 1.000000: {event}\n"), "ftrace");
    // A line that was cut, at any byte behind the event's name, is no other request.
    let whole = "block_rq_issue: 8,0 R 4096 () 1000 + 128 none,0,0 [fio]";
    for end in "block_rq_issue:".len()..whole.len() {
        assert!(read(format!("fio-1 [000] 1.000000: {}\n", &whole[..end]), "ftrace", false).is_err(), "{end}");
    }
    // Likewise of the tracer that prints blktrace's letters.
    let whole = "8,0 D R 1000 + 128 [fio]";
    assert_eq!(read(format!("fio-1 [000] 1.000000: {whole}\n"), "ftrace", false).unwrap().0.len(), 1);
    for end in "8,0 D R".len()..whole.len() {
        let cut = read(format!("fio-1 [000] 1.000000: {}\n", &whole[..end]), "ftrace", false);
        assert!(cut.is_err(), "{end}: {cut:?}");
    }
    assert!(wrong("block_rq_issue: 8,0 ZR 0 () 8 + 8 [x]").contains("no zone command: these are not read"));
    assert!(wrong("block_rq_issue: dev=8388608 sector=8").contains("expected major,minor"));
    assert!(wrong("block_rq_issue 8,0 R 4096 () 8 + 8 [x]").contains("a name and a colon, such as block_rq_issue:"));
    assert!(wrong("block_rq_issue: 8,0 R 4096 (00 8 + 8 [x]").contains("no closing parenthesis"));
    // Clocks that count cycles have no unit.
    let counter = "fio-1 [000] 123456: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]\n";
    assert!(
        error(counter, "ftrace").contains("a count of the trace clock has no unit"),
        "{}",
        error(counter, "ftrace")
    );
    assert!(error("fio-1 [000] block_rq_issue: 8,0 R 8 + 8 [x]\n", "ftrace").contains("expected a processor, a time"));
}

#[test]
fn biosnoop_is_read_as_its_tools_print_it() {
    let python = "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)\n\
                  0.000004    supervise      1950   xvda1   W 13092560   4096       0.74\n\
                  0.001469    Web Content    1956   xvdb    R 13092440   8192       1.24\n\
                  2.003920    jbd2/xvda1     456    xvda1   W 18446744073709551615 0    0.23\n";
    // Dated when they were issued, in the order of completion: at -0.736, 0.229 and 2003.69 ms.
    let right = [
        (0, W, 13_092_560 * 512, 4096, false),
        (965_000, R, 13_092_440 * 512, 8192, false),
        (2_004_426_000, Flush, 0, 0, false),
    ];
    for format in ["", "biosnoop"] {
        assert_eq!(ranges(python, format), right);
        let without_header = python.split_once('\n').unwrap().1;
        assert_eq!(ranges(without_header, format), right);
    }
    let mut trace = memory(python, &OpenOptions::default()).unwrap();
    drain(&mut trace).unwrap();
    assert_eq!(
        (trace.format(), trace.volume_names()),
        (FormatId::Biosnoop, &["xvda1".to_owned(), "xvdb".to_owned()][..])
    );
    // With the pattern, with the time in the queue, and both; the C tool's letters; commands are counted.
    let more = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  P QUE(ms) LAT(ms)\n\
                1.000000    a              1       sda       W 8          4096    S    0.01    1.00\n\
                1.001000    a              1       sda       R 16         4096    ?    1.00\n\
                1.002000    a              1       sda       R 24         4096      -1.000   1.000\n\
                1.003000    a              1       sda       FWFS 32         4096      0.001   1.000\n\
                1.004000    a              1       sda       FF 18446744073709551615         0      1.000\n\
                1.005000    a              1       sda       N 0         36      1.000\n";
    let mut trace = memory(more, &OpenOptions::default()).unwrap();
    let read: Vec<_> = drain(&mut trace).unwrap().iter().map(|r| (r.time.0 / 1000, r.op, r.offset, r.fua)).collect();
    let right = [
        (0, W, 4096, false),
        (1000, R, 8192, false),
        (2000, R, 12_288, false),
        (3000, Flush, 0, false),
        (3000, W, 16_384, true),
        (4000, Flush, 0, false),
    ];
    assert_eq!((&read[..], trace.passed_over()), (&right[..], 1));
    let unknown = "0.000004    ?              0              R 0 4096 0.74\n";
    assert!(
        error(unknown, "biosnoop").contains("PID is \"?\", expected a whole number"),
        "{}",
        error(unknown, "biosnoop")
    );
    assert!(error("1.0 a 1 sda W 8 4096 74\n", "biosnoop").contains("milliseconds with decimals"));
    assert!(error("1.0 a 1 sda D 8 0 0.74\n", "biosnoop").contains("the bytes of a discard"));
    assert!(error("1.0 sda W 8 4096 0.74\n", "biosnoop").contains("PID"));
    // bpftrace's tool of this name tells too little.
    for text in [
        "Attaching 4 probes...\nTIME(ms)     COMM             PID    LAT(ms)\n611          bash             4179        10\n",
        "TIME(ms)     DISK    COMM             PID    LAT(ms)\n611          nvme0n1 bash             4179        10\n",
    ] {
        for format in ["", "biosnoop"] {
            assert!(
                error(text, format).contains("biosnoop.bt tells neither sectors nor bytes"),
                "{}",
                error(text, format)
            );
        }
    }
}

//! Tables as people and tools write them: headers, rows that are no requests, the kernel's letters, numbers and times in
//! other clothes.

use super::*;

/// Returns what a table holds.
fn ranges(text: &str, format: &str) -> Vec<(u64, Op, u64, u64, bool)> {
    let read = read(text, format, false).unwrap_or_else(|error| panic!("{format}: {error}"));
    read.0.iter().map(|r| (r.time.0, r.op, r.offset, r.len, r.fua)).collect()
}

fn passed_over(text: &str, format: &str) -> (usize, u64) {
    let mut trace = memory(text, &options(format, false)).unwrap();
    let requests = drain(&mut trace).unwrap().len();
    assert_eq!(trace.skipped(), SkippedLines::default());
    (requests, trace.passed_over())
}

/// Holds the case `systor-blank-type`.
#[test]
fn systor_rows_without_a_type_are_no_requests() {
    let few = "Timestamp,Response,IOType,LUN,Offset,Size\n\
               1456135200.013118000,0.000482,R,4,1073741824,4096\n\
               1456135200.013940000,0.001210,W,4,1073745920,8192\n\
               1456135200.020331000,,,4,1073754112,4096\n\
               1456135200.021007000,0.000377,R,4,1073758208,65536\n\
               1456135200.025555000,,,4,1073823744,512\n\
               1456135200.031200000,0.000900,W,4,2147483648,4096\n";
    for format in ["", "systor"] {
        assert_eq!(passed_over(few, format), (4, 2), "{format}");
    }
    let many = (0..400).fold(String::new(), |mut text, n| {
        let op = if n % 33 == 7 { "" } else { ["R", "R", "W"][n % 3] };
        writeln!(text, "1456135200.{n:09},0.001,{op},4,{},4096", n * 4096).unwrap();
        text
    });
    let blank = (0..400).filter(|n| n % 33 == 7).count();
    assert_eq!(passed_over(&many, ""), (400 - blank, blank as u64));
    assert!(error(few.replace(",R,", ",X,"), "systor").contains("expected R, W, or nothing"));
}

/// Holds the case `flush-minus-one`.
#[test]
fn a_flush_has_any_address_or_none() {
    let text = "8,0    1        1     0.000000000   446  D  WS 34898224 + 56 [jbd2/dm-8-44]\n\
                8,0    1        2     0.000300000   446  D FWS 18446744073709551615 + 0 [jbd2/dm-8-44]\n\
                8,0    1        3     0.001000000   446  D  WS 34898280 + 8 [kworker/0:0]\n\
                8,0    1        4     0.001300000     0  D FWS [<idle>]\n";
    let right = [
        (0, W, 17_867_890_688, 28_672, false),
        (300_000, Flush, 0, 0, false),
        (1_000_000, W, 17_867_919_360, 4096, false),
        (1_300_000, Flush, 0, 0, false),
    ];
    assert_eq!(ranges(text, ""), right);
    for flush in ["F,18446744073709551615,0", "F,,", "FWS,18446744073709551615,0", "FF,0,0"] {
        let text = format!("0,W,34898224,56\n300,{flush}\n1000,W,34898280,8\n");
        assert_eq!(ranges(&text, "rq-csv"), right[..3], "{flush}");
        assert_eq!(ranges(&text, ""), right[..3], "{flush}");
    }
    // A write there is as wrong as before.
    assert!(error("0,W,18446744073709551615,8\n", "rq-csv").contains("more than 2^64 bytes"));
}

/// Holds the case `header-line`.
#[test]
fn a_first_line_that_names_columns_is_a_header() {
    let msr = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,hm,0,Write,8192,4096,120\n\
               128166372016382155,hm,0,Read,8192,4096,120\n128166372026382245,hm,0,Read,12288,4096,120\n";
    let alibaba = "device_id,opcode,offset,length,timestamp\n419,W,8192,4096,1577808000000008\n\
                   725,R,8192,4096,1577808000000046\n725,R,81920,4096,1577808000000096\n";
    for (text, format) in [(msr, "msr"), (alibaba, "alibaba")] {
        for name in ["", format] {
            assert_eq!(read(text, name, false).unwrap().0.len(), 3, "{format}");
        }
    }
    let quoted = "\"ts\";\"op\";\"lba_4k\";\"n\"\n1;R;5;1\n";
    assert_eq!(ranges(quoted, "columns:ts=ms,op,off=pages4k,len=pages4k"), [(0, R, 20_480, 4096, false)]);
    // Only the first line is, and only if nothing in it is a number.
    assert!(error(format!("{msr}a,b,c,d,e,f,g\n"), "msr").contains("line 5: the time stamp is \"a\""));
    assert!(error(msr.replace("DiskNumber", "0"), "msr").contains("line 1: the time stamp"));
    assert!(error("hello world\n1,R,0,8\n", "rq-csv").contains("line 1"));
}

/// Holds the case `rwbs-letters`.
#[test]
fn the_kernels_letters_are_read_in_tables() {
    let right = [
        (0, W, 2048 * 512, 4096, false),
        (100_000, R, 4096 * 512, 4096, false),
        (200_000, Flush, 0, 0, false),
        (200_000, W, 8192 * 512, 4096, true),
    ];
    let us = "0,WS,2048,8\n100,RA,4096,8\n200,FWFSM,8192,8\n";
    assert_eq!(ranges(us, ""), right);
    assert_eq!(ranges(us, "columns:ts=us,op,off=sectors,len=sectors"), right);
    let iosnoop = "STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n\
                   5982800.302061  5982800.302679  supervise    1809   W    202,1    17039600     4096       0.62\n\
                   5982800.302423  5982800.302842  supervise    1809   WS   202,1    17039608     4096       0.42\n\
                   5982800.304962  5982800.305446  jbd2/dm-8-44 446    FWS  8,0      18446744073709551615 0          2.90\n\
                   5982800.305000  5982800.306000  jbd2/dm-8-44 446    RA   8,0      34898224     131072     1.00\n";
    let columns = "columns:ts=s,_,_,_,op,dev,off=sectors,len=bytes,_,sep=blanks";
    let read = ranges(iosnoop, columns);
    assert_eq!(read.iter().map(|r| r.1).collect::<Vec<_>>(), [W, W, Flush, R]);
    assert_eq!((read[3].2, read[3].3), (17_867_890_688, 131_072));
    assert_eq!(ranges("0,DS,8,8\n1,N,8,8\n2,R,8,8\n", "rq-csv").len(), 2);
    assert!(error("0,XS,8,8\n", "rq-csv").contains("RWBS letters such as WS"));
}

/// Holds the case `rows-that-are-no-requests`.
#[test]
fn rows_are_passed_over_by_value() {
    let etw = "         DiskWriteInit,      64190,         store.exe (4312),      5120, 0xfffffa8012340000\n\
               DiskWrite,      64662,         store.exe (4312),      5120, 0xfffffa8012340000, 0x32b2095000, 0x00002000,  684,  1, 0x06\n\
               DiskReadInit,      65951,         store.exe (4312),      5121, 0xfffffa8012340040\n\
               DiskRead,      67645,         store.exe (4312),      5121, 0xfffffa8012340040, 0x250a43b000, 0x00001000,  959,  2, 0x06\n";
    let right = [(0, W, 0x32_b209_5000, 8192, false), (2_983_000, R, 0x25_0a43_b000, 4096, false)];
    for others in ["DiskReadInit=_,DiskWriteInit=_", "*=_"] {
        let format =
            format!("columns:op(DiskRead=R,DiskWrite=W,{others}),ts=us,_,_,_,off=bytes,len=bytes,_,dev,sep=comma");
        assert_eq!(ranges(etw, &format), right, "{others}");
        assert_eq!(passed_over(etw, &format), (2, 2), "{others}");
    }
    let missed = error(etw, "columns:op(DiskRead=R,DiskWrite=W),ts=us,_,_,_,off=bytes,len=bytes,sep=comma");
    assert!(missed.contains("name it too, with =_ if such rows are no requests"), "{missed}");
    let vscsi = "#Vscsi Cmd Trace. (Trace Format Version 1)\n#Serial Number,IO Data Length,Num SG Entries\n\
                 2147483701,4096,1,write,24048800,2756778716600\n2147483704,0,0,unknown,0,2756797029500\n\
                 2147483706,65536,16,read,1048576,2756802107264\n";
    let format = "columns:_,len=bytes,_,op(read=R,write=W,unknown=_),off=sectors,ts=us,skip=2";
    assert_eq!(passed_over(vscsi, format), (2, 1));
    let actions = "0.000000100,D,W,2048,8\n0.000100000,C,W,2048,8\n0.000200000,D,R,4096,8\n";
    let format = "columns:ts=s,only(D),op,off=sectors,len=sectors";
    assert_eq!(passed_over(actions, format), (2, 1));
    assert_eq!(passed_over(actions, "columns:ts=s,only(D,C),op,off=sectors,len=sectors"), (3, 0));
    assert!(
        "columns:off=bytes,len=bytes,op(a=_,b=_)"
            .parse::<FormatSpec>()
            .unwrap_err()
            .to_string()
            .contains("nothing is a request")
    );
    for text in
        ["columns:ts=s,only(D),op,off=sectors,len=sectors", "columns:op(a=R,*=_),ts=s,ts=ns,dev,dev,off=1024,len=bytes"]
    {
        assert_eq!(text.parse::<FormatSpec>().unwrap().to_string(), text);
    }
}

/// Holds the case `wall-clock-times`.
#[test]
fn dates_decimals_and_split_columns_are_read() {
    let tracer = "timestamp,pid,command,sector,operation,size,latency_ms\n\
                  2024-01-15 10:30:45.123456,1234,python3,2048000,write,8192,1.234\n\
                  2024-01-15 10:30:45.234567,1234,python3,2048016,read,4096,0.567\n\
                  2024-01-15 10:30:45.345678,1234,python3,0,flush,0,2.345\n";
    let format = "columns:ts=s,_,_,off=sectors,op,len=bytes";
    let right = [
        (0, W, 2_048_000 * 512, 8192, false),
        (111_111_000, R, 2_048_016 * 512, 4096, false),
        (222_222_000, Flush, 0, 0, false),
    ];
    assert_eq!(ranges(tracer, format), right);
    assert_eq!(ranges(tracer, "columns:ts=s,_,_,off=sectors,op,len=bytes,skip=1"), right);
    let point = "0.0,W,4096.0,4096.0\n1.0,R,8192.0,512.0\n";
    let format = "columns:ts=ms,op,off=bytes,len=bytes";
    assert_eq!(ranges(point, format), [(0, W, 4096, 4096, false), (1_000_000, R, 8192, 512, false)]);
    assert!(error("0,W,4096.5,512\n", format).contains("off is \"4096.5\", expected a whole number"));
    let exponent = "ts,op,off,len\n1.28166372e+17,W,4096.0,4096.0\n";
    let lost = error(exponent, "columns:ts=filetime,op,off=bytes,len=bytes");
    assert!(lost.contains("a number with an exponent has lost some"), "{lost}");
    assert!(error("1,W,4e3,512\n", format).contains("has lost some"));
    // Seconds and nanoseconds, major and minor, in two columns each.
    let split = "17,5,8,16,W,0,512\n17,1000000005,8,0,R,0,512\n";
    let mut trace = memory(split, &options("columns:ts=s,ts=ns,dev,dev,op,off=bytes,len=bytes", false)).unwrap();
    assert_eq!(drain(&mut trace).unwrap()[1].time, Nanos(1_000_000_000));
    assert_eq!(trace.volume_names(), ["8,16", "8,0"]);
    assert!("columns:ts=s,ts=s,ts=s,off=1,len=1,op".parse::<FormatSpec>().is_err());
}

#[test]
fn the_sign_of_an_address_can_tell_the_kind() {
    let text = "0.5 -2048 8\n0.7 4096 8\n0.9 -0 16\n";
    let writes = "columns:ts=ms,off=sectors,len=sectors,sign=W,sep=blanks";
    let right = [(0, W, 2048 * 512, 4096, false), (200_000, R, 4096 * 512, 4096, false), (400_000, W, 0, 8192, false)];
    assert_eq!(ranges(text, writes), right);
    let swapped = right.map(|(time, op, offset, len, fua)| (time, if op == W { R } else { W }, offset, len, fua));
    assert_eq!(ranges(text, "columns:ts=ms,off=sectors,len=sectors,sign=R"), swapped);
    assert_eq!(writes.parse::<FormatSpec>().unwrap().to_string(), writes);
    // Without it a sign is an error, and two of them always.
    assert!(error(text, "columns:ts=ms,off=sectors,len=sectors,op=W").contains("off is \"-2048\""));
    assert!(error("0.5 --8 8\n", writes).contains("off is \"-8\", expected a whole number"));
    let wrong = |format: &str| format.parse::<FormatSpec>().unwrap_err().to_string();
    assert!(wrong("columns:off=bytes,len=bytes,sign=D").contains("sign=D: expected R or W"));
    assert!(wrong("columns:off=bytes,len=bytes,sign=W,sign=W").contains("sign= is given twice"));
    for both in ["columns:off=bytes,len=bytes,op,sign=W", "columns:off=bytes,len=bytes,op=W,sign=W"] {
        assert!(wrong(both).contains("the offset tells the kind, but op does too"), "{both}");
    }
    assert!(wrong("columns:off=bytes,len=bytes").contains("or sign=W if writes have a minus sign"));
}

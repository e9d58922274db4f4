//! Contexts of block status, byte by byte: how they are listed and chosen.

use destage_nbd::NbdServer;
use destage_nbd::server::ServerEvent;

use crate::common::{Bytes, bytes, feed, full, greeted, option, option_reply, sent};

const LIST: u32 = 9;
const SET: u32 = 10;

fn ask(to: u32, name: &str, queries: &[&str]) -> Bytes {
    let data = bytes().string(name).u32(queries.len() as u32);
    option(to, &queries.iter().fold(data, |data, query| data.string(query)))
}

fn answered(to: u32, contexts: &[(u32, &str)]) -> Bytes {
    let all = contexts.iter().map(|(id, name)| option_reply(to, 4, &bytes().u32(*id).raw(name.as_bytes())).0);
    Bytes(all.chain([option_reply(to, 1, &bytes()).0]).flatten().collect())
}

#[track_caller]
fn refused(server: &mut NbdServer, message: &Bytes, kind: u32) {
    assert_eq!(feed(server, message).0[12..16], kind.to_be_bytes());
}

/// With structured replies agreed on.
fn server() -> NbdServer {
    let mut server = greeted(vec![full("a", 4096), full("b", 4096)], 3);
    feed(&mut server, &option(8, &bytes()));
    server
}

/// The contexts with which the transmission of an export begins.
fn chosen(mut server: NbdServer, name: &str) -> Vec<usize> {
    let message = option(7, &bytes().string(name).u16(0));
    assert_eq!(server.receive(&mut &message.0[..]), Ok(ServerEvent::Started));
    sent(&mut server);
    server.session().expect("it has begun").contexts().collect()
}

const ALLOCATION: &str = "base:allocation";

#[test]
fn contexts_are_listed_by_name_and_namespace() {
    let mut server = server();
    let all = [(0, ALLOCATION), (0, "destage:dirty"), (0, "destage:member")];
    for (queries, expected) in [
        (&[][..], &all[..]),
        (&["destage:"], &all[1..]),
        (&["base:"], &all[..1]),
        (&["destage:member", ALLOCATION, ALLOCATION, "base:"], &[all[0], all[2]]),
        (&["destage:mem", "qemu:dirty-bitmap:x", "base:other"], &[]),
    ] {
        assert_eq!(feed(&mut server, &ask(LIST, "a", queries)), answered(LIST, expected), "{queries:?}");
    }
    // Listing chooses nothing.
    assert_eq!(chosen(server, "a"), []);
}

#[test]
fn contexts_are_chosen_by_name() {
    let mut server = server();
    let set = feed(&mut server, &ask(SET, "a", &["destage:member", "base:", "base:none", ALLOCATION]));
    assert_eq!(set, answered(SET, &[(1, ALLOCATION), (3, "destage:member")]));
    assert_eq!(chosen(server, "a"), [0, 2]);
}

#[test]
fn contexts_are_of_one_export_and_the_last_choice_holds() {
    let mut of_other = server();
    feed(&mut of_other, &ask(SET, "b", &[ALLOCATION]));
    assert_eq!(chosen(of_other, "a"), []);
    let mut again = server();
    feed(&mut again, &ask(SET, "a", &[ALLOCATION]));
    feed(&mut again, &ask(SET, "a", &["destage:dirty"]));
    assert_eq!(chosen(again, "a"), [1]);
    // No query chooses nothing, and neither does an option that fails.
    let failures = [bytes().string("c").u32(0), bytes().string("a").u32(1), bytes().raw(&vec![0; 40_000])];
    for failure in failures.iter().map(|data| option(SET, data)).chain([ask(SET, "a", &[])]) {
        let mut server = server();
        feed(&mut server, &ask(SET, "a", &[ALLOCATION]));
        feed(&mut server, &failure);
        assert_eq!(chosen(server, "a"), []);
    }
}

#[test]
fn queries_that_are_none_are_refused() {
    const INVALID: u32 = 0x8000_0003;
    for to in [LIST, SET] {
        let mut early = greeted(vec![full("a", 4096)], 3);
        refused(&mut early, &ask(to, "a", &[]), INVALID);
        let mut server = server();
        refused(&mut server, &ask(to, "c", &[]), 0x8000_0006);
        let long = "x".repeat(4097);
        for query in ["allocation", "", ":allocation", "base:\0", &format!("x:{long}")] {
            refused(&mut server, &ask(to, "a", &[ALLOCATION, query]), INVALID);
        }
        for data in [
            bytes(),
            bytes().string("a"),
            bytes().u32(10).raw(b"a").u32(0),
            bytes().string("a").u32(1).u32(9).raw(b"base:"),
            bytes().string("a").u32(0).raw(b"more"),
            bytes().string("a").u32(u32::MAX),
            bytes().string("a").u32(1).u32(5).raw(b"base\xff"),
            bytes().string(&long).u32(0),
        ] {
            refused(&mut server, &option(to, &data), INVALID);
        }
        refused(&mut server, &option(to, &bytes().raw(&vec![0; 32_769])), 0x8000_0009);
    }
}

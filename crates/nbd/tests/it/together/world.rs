//! Two ends of a connection, and the bytes between them, of which some arrive now and then.

use std::collections::HashMap;

use destage_nbd::client::{ClientEvent as Heard, NbdClient, OptionAnswer, OptionRequest};
use destage_nbd::server::ServerEvent;
use destage_nbd::{NbdExport, NbdRequest, NbdServer};

use super::disk::{Disk, Outcome};
use super::refusals;
use crate::common::exports;

/// Requests under way at most.
const DEPTH: usize = 8;

pub struct Random(u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        // Weyl's sequence, mixed.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}

/// Holds the results of the negotiation.
#[derive(Clone, Copy, Debug)]
pub struct Agreed {
    pub structured: bool,
    pub by_name: bool,
    pub contexts: usize,
}

/// Bytes in one direction: all that were ever sent, and how many of them have arrived.
#[derive(Default)]
struct Pipe {
    sent: Vec<u8>,
    arrived: usize,
}

impl Pipe {
    /// The next bytes to arrive: as many as chance has it.
    fn some(&self, random: &mut Random) -> std::ops::Range<usize> {
        let left = self.sent.len() - self.arrived;
        let most = if random.below(4) == 0 { 1 } else { left };
        self.arrived..self.arrived + left.min(1 + random.below(most.max(1)))
    }
}

/// Holds the part of a reply that the client has received.
struct Open {
    request: NbdRequest,
    bytes: Vec<u8>,
    extents: Vec<(u32, u64, u32)>,
}

pub struct World {
    export: NbdExport,
    agreed: Agreed,
    random: Random,
    server: NbdServer,
    client: NbdClient,
    to_server: Pipe,
    to_client: Pipe,
    disk: Disk,
    /// Requests that the server has heard, with the payloads of writes; the last may be incomplete.
    heard: Vec<(NbdRequest, Vec<u8>)>,
    /// Holds the result of each request where it was carried out.
    outcomes: HashMap<u64, Outcome>,
    open: HashMap<u64, Open>,
    /// Each request as the client made it, with the bytes that had arrived when it did.
    made: Vec<(usize, NbdRequest)>,
    /// All events at both ends.
    server_events: Vec<String>,
    client_events: Vec<String>,
}

impl World {
    pub fn new(export: NbdExport, agreed: Agreed, seed: u64) -> Self {
        let size = export.size as usize;
        Self {
            server: NbdServer::new(exports(vec![export.clone()])),
            client: NbdClient::new(DEPTH),
            random: Random(seed),
            disk: Disk { bytes: (0..size).map(|at| if at & 0x800 == 0 { (at % 251) as u8 } else { 0 }).collect() },
            export,
            agreed,
            to_server: Pipe::default(),
            to_client: Pipe::default(),
            heard: Vec::new(),
            outcomes: HashMap::new(),
            open: HashMap::new(),
            made: Vec::new(),
            server_events: Vec::new(),
            client_events: Vec::new(),
        }
    }

    /// Some bytes arrive at the server.
    fn server_hears(&mut self) {
        let range = self.to_server.some(&mut self.random);
        self.to_server.arrived = range.end;
        let mut input = &self.to_server.sent[range];
        loop {
            match self.server.receive(&mut input).expect("the client keeps to the protocol") {
                ServerEvent::More => break,
                ServerEvent::Request(request) => {
                    self.server_events.push(format!("{request:?}"));
                    self.heard.push((request, Vec::new()));
                }
                ServerEvent::Payload(left) => {
                    let payload = &mut self.heard.last_mut().expect("the write").1;
                    let start = payload.len();
                    payload.resize(start + left as usize, 0);
                    let taken = self.server.take_payload(&mut input, &mut payload[start..]);
                    payload.truncate(start + taken);
                    if input.is_empty() {
                        break;
                    }
                }
                event => {
                    self.server_events.push(format!("{event:?}"));
                    if event == ServerEvent::Ended {
                        break;
                    }
                }
            }
        }
        assert!(input.is_empty());
        self.flush_server();
    }

    fn flush_server(&mut self) {
        self.to_client.sent.extend_from_slice(self.server.output());
        let len = self.server.output().len();
        self.server.sent(len);
    }

    /// Some bytes arrive at the client; answers to options are given back.
    fn client_hears(&mut self) -> Option<OptionAnswer> {
        let range = self.to_client.some(&mut self.random);
        let mut end = range.end;
        let mut input = &self.to_client.sent[range];
        let mut answer = None;
        loop {
            let event = self.client.receive(&mut input).expect("the server keeps to the protocol");
            self.client_events.extend(shown(&event));
            match event {
                Heard::More => break,
                Heard::Answer(of) => answer = Some(of),
                Heard::Greeted | Heard::Started => {}
                Heard::Data { cookie, offset, length } => {
                    let open = self.open.get_mut(&cookie).expect("it is under way");
                    let start = (offset - open.request.offset) as usize;
                    let into = &mut open.bytes[start..start + length as usize];
                    let taken = self.client.take_payload(&mut input, into);
                    // The rest is waited for, and does not go through the input.
                    let rest = &self.to_client.sent[end..end + into.len() - taken];
                    into[taken..].copy_from_slice(rest);
                    self.client.payload_read(rest.len() as u32);
                    end += rest.len();
                }
                Heard::Payload(_) => panic!("it was taken"),
                Heard::Hole { cookie, offset, length } => {
                    let open = self.open.get_mut(&cookie).expect("it is under way");
                    let start = (offset - open.request.offset) as usize;
                    open.bytes[start..start + length as usize].fill(0);
                }
                Heard::Extent { cookie, context, length, flags } => {
                    let open = self.open.get_mut(&cookie).expect("it is under way");
                    open.extents.push((context, u64::from(length), flags));
                }
                Heard::Failed { cookie, text, .. } => assert!(self.open.contains_key(&cookie) && !text.is_empty()),
                Heard::Done { cookie, result } => {
                    let open = self.open.remove(&cookie).expect("it is under way");
                    let got = match (result, open.request.command) {
                        (Err(errno), _) => Outcome::Failed(errno),
                        (Ok(()), destage_nbd::NbdCommand::Read { .. }) => Outcome::Bytes(open.bytes),
                        (Ok(()), destage_nbd::NbdCommand::BlockStatus { .. }) => Outcome::Extents(open.extents),
                        (Ok(()), _) => Outcome::Nothing,
                    };
                    let refused =
                        refusals::errno(&self.export, self.agreed.structured, self.agreed.contexts, &open.request);
                    let expected =
                        refused.map_or_else(|| self.outcomes.remove(&cookie), |errno| Some(Outcome::Failed(errno)));
                    assert_eq!(Some(got), expected, "{:?}", open.request);
                }
            }
        }
        self.to_client.arrived = end;
        answer
    }

    fn ask(&mut self, option: &OptionRequest<'_>) -> Option<OptionAnswer> {
        self.client.ask(option).expect("it is time for it");
        self.flush_client();
        loop {
            self.server_hears();
            let answer = self.client_hears();
            let started = self.client.session().is_some();
            if answer.is_some() || started {
                return answer;
            }
        }
    }

    fn flush_client(&mut self) {
        self.to_server.sent.extend_from_slice(self.client.output());
        let len = self.client.output().len();
        self.client.sent(len);
    }

    /// From the first byte to the transmission.
    pub fn negotiate(&mut self) {
        self.flush_server();
        while self.client.output().is_empty() {
            self.client_hears();
        }
        self.flush_client();
        if self.agreed.structured {
            assert_eq!(self.ask(&OptionRequest::StructuredReply), Some(OptionAnswer::Done));
        }
        let names = ["destage:member", "base:allocation", "destage:dirty"];
        if self.agreed.contexts > 0 {
            let answer = self.ask(&OptionRequest::SetContexts("disk", &names[..self.agreed.contexts]));
            let Some(OptionAnswer::Contexts(chosen)) = answer else { panic!("{answer:?}") };
            assert_eq!(chosen.len(), self.agreed.contexts);
        }
        let start =
            if self.agreed.by_name { OptionRequest::ExportName("disk") } else { OptionRequest::Go("disk", &[3]) };
        assert_eq!(self.ask(&start), None);
        let (of_client, of_server) = (self.client.session().expect("it"), self.server.session().expect("it"));
        assert_eq!((of_client.size, of_client.features), (of_server.size, of_server.features));
        assert!(self.agreed.by_name || of_client.blocks == of_server.blocks);
    }

    /// All requests, until each is answered.
    pub fn run(&mut self, requests: Vec<NbdRequest>) {
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() || !self.open.is_empty() {
            match self.random.below(5) {
                0 => {
                    if let Some(request) = requests.next_if(|_| self.open.len() < DEPTH) {
                        self.make(request);
                    }
                }
                1 => self.server_hears(),
                2 => self.carry_out(),
                _ => drop(self.client_hears()),
            }
        }
        assert!(self.heard.is_empty() && self.outcomes.is_empty());
        assert_eq!(self.client.under_way().count(), 0);
    }

    fn make(&mut self, request: NbdRequest) {
        let (cookie, head) = self.client.request_anyway(request).expect("there is room");
        self.made.push((self.to_client.arrived, request));
        self.to_server.sent.extend_from_slice(&head);
        if request.command == destage_nbd::NbdCommand::Write {
            let payload = (0..request.length as usize).map(|_| self.random.below(256) as u8);
            self.to_server.sent.extend(payload);
        }
        let bytes =
            if matches!(request.command, destage_nbd::NbdCommand::Read { .. }) { request.length as usize } else { 0 };
        self.open.insert(cookie, Open { request, bytes: vec![0xee; bytes], extents: Vec::new() });
    }

    /// One of the requests that the server has heard is carried out.
    fn carry_out(&mut self) {
        let whole = self.heard.len() - usize::from(self.server.payload_left() > 0);
        if whole > 0 {
            let (request, payload) = self.heard.remove(self.random.below(whole));
            let session = *self.server.session().expect("the transmission has begun");
            let out = &mut self.to_client.sent;
            let outcome = self.disk.answer(&session, &request, &payload, &mut self.random, out);
            self.outcomes.insert(request.cookie, outcome);
        }
    }

    /// The client says goodbye.
    pub fn part(&mut self) {
        self.to_server.sent.extend(NbdClient::goodbye());
        while self.to_server.arrived < self.to_server.sent.len() {
            self.server_hears();
        }
        assert_eq!(self.server_events.last().map(String::as_str), Some("Ended"));
        assert_eq!(self.to_client.arrived, self.to_client.sent.len());
        assert!(!self.server.is_inside_message());
    }

    /// The same bytes once more, one at a time: both ends make the same of them.
    pub fn replay(&self) {
        let mut server = NbdServer::new(exports(vec![self.export.clone()]));
        let mut events = Vec::new();
        for byte in self.to_server.sent.chunks(1) {
            let mut input = byte;
            loop {
                match server.receive(&mut input).expect("it did before") {
                    ServerEvent::More => break,
                    ServerEvent::Payload(_) if input.is_empty() => break,
                    ServerEvent::Payload(_) => assert_eq!(server.take_payload(&mut input, &mut [0; 9]), 1),
                    ServerEvent::Ended => {
                        events.push("Ended".to_owned());
                        break;
                    }
                    ServerEvent::Request(request) => events.push(format!("{request:?}")),
                    event => events.push(format!("{event:?}")),
                }
            }
            let len = server.output().len();
            server.sent(len);
        }
        assert_eq!(events, self.server_events);
        self.replay_client();
    }

    fn replay_client(&self) {
        let mut client = NbdClient::new(DEPTH);
        let mut events = Vec::new();
        let mut made = self.made.iter().peekable();
        let names = ["destage:member", "base:allocation", "destage:dirty"];
        let go = if self.agreed.by_name { OptionRequest::ExportName("disk") } else { OptionRequest::Go("disk", &[3]) };
        let structured = self.agreed.structured.then_some(OptionRequest::StructuredReply);
        let contexts =
            (self.agreed.contexts > 0).then(|| OptionRequest::SetContexts("disk", &names[..self.agreed.contexts]));
        let mut options = structured.into_iter().chain(contexts).chain([go]);
        for (at, byte) in self.to_client.sent.chunks(1).enumerate() {
            while let Some((_, request)) = made.next_if(|made| made.0 == at) {
                client.request_anyway(*request).expect("there was room");
            }
            let mut input = byte;
            loop {
                let event = client.receive(&mut input).expect("it did before");
                events.extend(shown(&event));
                match event {
                    Heard::Greeted | Heard::Answer(_) => client.ask(&options.next().expect("one more")).expect("time"),
                    Heard::Payload(_) if input.is_empty() => break,
                    Heard::Payload(_) => assert_eq!(client.take_payload(&mut input, &mut [0; 9]), 1),
                    Heard::More => break,
                    _ => {}
                }
            }
        }
        assert_eq!(events, self.client_events);
    }
}

/// An event, but those that depend on how bytes are cut up.
fn shown(event: &Heard) -> Option<String> {
    (!matches!(event, Heard::More | Heard::Payload(_))).then(|| format!("{event:?}"))
}

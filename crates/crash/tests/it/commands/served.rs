//! An array that is served in memory, with all that clients know of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_crash::{ModelChange, RandomDraws, SECTOR, sector_bytes, value_of};
use destage_engine::{
    AcceptedLosses, ArrayBackend, ArrayDescription, ArrayMaking, ArrayPart, ArrayState, BlockBackend, ByteSize,
    CachePart, DeviceReplacement, IoPart, NvramPart, ReplaceOutcome, Uuid,
};
use destage_exec::{CrashPoint, OsInterface, RecordingOs, RequestCompletion};
use destage_plan::{HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_raid::array::{DurabilityMode, ParityMethod};

use super::knowledge::{AskedRequest, ClientKnowledge};

/// Bytes of a page, and of a sector of the members and the cache.
pub const PAGE: u64 = 64;
/// Sectors of the model in a page.
pub(super) const PAGE_SECTORS: u64 = PAGE / SECTOR as u64;
/// Counts the members, of which one can be lost.
pub const MEMBERS: usize = 4;
/// Bytes of each.
const MEMBER: u64 = 16 * PAGE;
/// Bytes before them.
pub const OFFSET: u64 = 2 * PAGE;
/// Bytes of data.
pub(super) const DATA: u64 = MEMBER * (MEMBERS as u64 - 1);
/// Names the files that take devices' places.
const FRESH: [&str; 3] = ["other", "fresh of member 1", "fresh of cache"];
/// Polls within which what was begun must end.
const PATIENCE: u32 = 100_000;

/// Names the file of the description.
pub fn described() -> PathBuf {
    "/array/array.toml".into()
}

/// Describes the array of this number, with this cache and whatever else the seed decides: `@cache-device` has the NVRAM on the
/// cache's device, `@raid0` has no parity.
pub fn description(cache: &str, seed: u64, uuid: u128) -> ArrayDescription {
    let (policy, place) = cache.split_once('@').unwrap_or((cache, ""));
    let array = ArrayPart {
        level: if place == "raid0" { RaidLevel::Raid0 } else { RaidLevel::Raid5 },
        layout: None,
        chunk: ByteSize(2 * PAGE),
        page: ByteSize(PAGE),
        member_size: ByteSize(MEMBER),
        data_offset: ByteSize(OFFSET),
        md: None,
        parity: ParityMethod::Min,
        durability: if seed % 4 == 3 { DurabilityMode::EveryWrite } else { DurabilityMode::Flush },
        members: (0..MEMBERS).map(|member| format!("member{member}").into()).collect(),
    };
    let has_size = policy != "none";
    let mut part = CachePart { policy: policy.to_owned(), size: has_size.then_some(ByteSize(48 * PAGE)), device: None };
    if part.has_device().expect("a cache") {
        part.device = Some("cache".into());
    }
    let mut description = ArrayDescription::new(array, part);
    description.uuid = Uuid::from_u128(uuid);
    description.serve.io = if seed.is_multiple_of(2) { IoPart::Auto } else { IoPart::Threads };
    if place == "cache-device" {
        description.nvram = NvramPart::on_cache_device();
    }
    description
}

/// Has the files of an array's devices written by pages, and what of the NVRAM lies on the cache's by sectors of 512 bytes.
pub fn prepare(os: &RecordingOs, cache: &str) {
    let folder = Path::new("/array");
    for name in (0..MEMBERS).map(|member| format!("member{member}")).chain(FRESH.map(str::to_owned)) {
        os.set_sector(&folder.join(name), PAGE);
    }
    // Its label is written twice while a member is copied to it, and is a sector of a device.
    os.set_sector_before(&folder.join("other"), (OFFSET + MEMBER).next_multiple_of(512), PAGE);
    let mut own = description(cache, 0, 1);
    own.nvram = NvramPart::default();
    let files = own.described(folder).expect("there can be such an array").files;
    if files.devices.len() > MEMBERS {
        os.set_sector_before(&folder.join("cache"), files.file_bytes(MEMBERS).next_multiple_of(4096), PAGE);
    }
}

/// Makes a new array.
pub fn make(os: &RecordingOs, description: &ArrayDescription) {
    let shared: Arc<dyn OsInterface> = Arc::new(os.clone());
    description.make_on(&shared, &described(), ArrayMaking::New).expect("it can be made");
}

/// Says why a start is refused, and what was known of the array.
pub struct RefusedStart {
    pub known: Box<ClientKnowledge>,
    pub why: String,
}

/// Serves an array.
pub struct ServedArray {
    pub os: RecordingOs,
    pub array: ArrayBackend,
    pub known: ClientKnowledge,
    pub dice: RandomDraws,
    /// Keeps what was left at each operation, with what was known then.
    pub ends: Vec<(CrashPoint, ClientKnowledge)>,
}

impl ServedArray {
    /// Opens the array, and waits until it is put right.
    pub fn open(
        os: &RecordingOs,
        known: ClientKnowledge,
        dice: RandomDraws,
        accepts: bool,
    ) -> Result<Self, RefusedStart> {
        let path = described();
        let text = os.content(&path).map(|text| String::from_utf8(text).expect("it is text"));
        let opened = ArrayDescription::parse(&text.expect("there is a description"), &path).and_then(|description| {
            let accepted = AcceptedLosses { data: accepts, notes: accepts };
            ArrayBackend::open_on(Arc::new(os.clone()), description, &path, accepted)
        });
        let ready = opened.map_err(|error| error.to_string()).and_then(|mut array| {
            let ready = array.wait_ready().map_err(|error| error.to_string());
            ready.map(|()| array)
        });
        match ready {
            Ok(array) => {
                let mut served = Self { os: os.clone(), array, known, dice, ends: Vec::new() };
                served.took();
                Ok(served)
            }
            Err(why) => Err(RefusedStart { known: Box::new(known), why }),
        }
    }

    fn took(&mut self) {
        let known = &self.known;
        self.ends.extend(self.os.take_moments().into_iter().map(|moment| (moment, known.clone())));
    }

    /// Asks for something, mostly a write.
    pub fn request(&mut self) {
        let op = match self.dice.below(12) {
            0 | 1 => HostOp::Read,
            2 => HostOp::Flush,
            3 => HostOp::Discard,
            _ => HostOp::Write,
        };
        let page = self.dice.below(DATA / PAGE);
        let pages = self.dice.within(1, 6).min(DATA / PAGE - page);
        let fua = op == HostOp::Write && self.dice.one_in(4);
        self.ask(op, page, pages, fua);
    }

    pub fn ask(&mut self, op: HostOp, page: u64, pages: u64, fua: bool) {
        self.known.number += 1;
        let (tag, sector, sectors) = (self.known.number, page * PAGE_SECTORS, pages * PAGE_SECTORS);
        let data: Vec<u8> = match op {
            HostOp::Write => (0..sectors).flat_map(|at| sector_bytes(tag << 16 | at, sector + at)).collect(),
            HostOp::Read => vec![0; (pages * PAGE) as usize],
            _ => Vec::new(),
        };
        let model = &mut self.known.model;
        if let Some(change) = change(op) {
            model.change(tag, change, sector, sectors);
        }
        let submitted = if op == HostOp::Read { model.read_begins() } else { model.tick() };
        self.known.asked.push(AskedRequest { tag, op, sector, sectors, fua, submitted });
        let (offset, len) = if op == HostOp::Flush { (0, 0) } else { (page * PAGE, pages * PAGE) };
        // If it has stopped, the next poll says so.
        drop(self.array.submit(HostRequest { tag, op, offset, len, fua }, data.into()));
        self.took();
    }

    /// Does what is to be done now.
    pub fn poll(&mut self) {
        self.try_poll().unwrap_or_else(|why| panic!("it does not serve: {why}"));
    }

    /// Does what is to be done now; the error says why the array has stopped.
    pub fn try_poll(&mut self) -> Result<(), String> {
        let first = self.array.poll();
        // They precede what it has led to.
        self.took();
        let mut next = first.map_err(|error| error.to_string())?;
        while let Some(completion) = next {
            self.answered(&completion);
            next = self.array.next_completion();
        }
        Ok(())
    }

    fn answered(&mut self, completion: &RequestCompletion) {
        let at = self.known.asked.iter().position(|asked| asked.tag == completion.tag).expect("it was asked");
        let asked = self.known.asked.swap_remove(at);
        let may_fail = self.known.has_given_up || asked.op != HostOp::Flush && self.known.is_given_up(&asked);
        assert!(completion.ok || may_fail, "{asked:?} fails");
        let given_up = &self.known.given_up;
        let model = &mut self.known.model;
        match change(asked.op) {
            Some(change) => model.changed(asked.tag, change, asked.sector, asked.sectors, completion.ok, asked.fua),
            None if asked.op == HostOp::Flush => model.flushed(asked.submitted),
            None if !completion.ok => model.read_fails(),
            None => {
                let read = model.read(asked.submitted, asked.sector, &completion.bytes);
                read.unwrap_or_else(|wrong| panic!("{wrong}"));
                for (bytes, sector) in completion.bytes.chunks_exact(SECTOR).zip(asked.sector..) {
                    let is_right = value_of(bytes, sector).is_some() || given_up.contains(&(sector / PAGE_SECTORS));
                    assert!(is_right, "sector {sector}: bytes that nobody wrote there");
                }
            }
        }
    }

    /// Counts the requests that are not answered.
    pub fn asked(&self) -> usize {
        self.known.asked.len()
    }

    pub fn is_idle(&self) -> bool {
        self.known.asked.is_empty()
    }

    /// Polls until something holds; requests come meanwhile if there are to be any.
    pub fn until(&mut self, loaded: bool, what: &str, holds: impl Fn(&Self) -> bool) {
        let mut left = PATIENCE;
        while !holds(self) {
            left = left.checked_sub(1).unwrap_or_else(|| {
                let (state, lost) = (self.state(), self.lost());
                panic!("it does not come to that: {what}; {state:?}, lost {lost:?}, asked {:?}", self.known.asked)
            });
            if loaded && self.known.asked.len() < 6 && self.dice.one_in(8) {
                self.request();
            }
            self.poll();
        }
    }

    /// Waits for all answers.
    pub fn settle(&mut self) {
        self.until(false, "all is answered", Self::is_idle);
    }

    /// Carries out some requests.
    pub fn work(&mut self, requests: usize) {
        for _ in 0..requests {
            self.request();
            self.until(false, "there is room", |served| served.known.asked.len() < 4);
        }
    }

    /// Reads everything.
    pub fn read_all(&mut self) {
        for page in (0..DATA / PAGE).step_by(8) {
            self.ask(HostOp::Read, page, 8, false);
        }
        self.settle();
    }

    /// Writes back what only the cache has, as `destage flush` does.
    pub fn flush(&mut self, loaded: bool) {
        self.array.begin_drain().expect("it serves");
        self.took();
        self.until(loaded, "it is drained", |served| !served.array.is_draining());
    }

    /// Does as the service does: it comes to rest first, while requests come and then without.
    pub fn replace(&mut self, order: &DeviceReplacement) -> Result<(), String> {
        if self.array.settles_before(order).is_some() {
            self.flush(true);
            self.settle();
            self.array.begin_settle().expect("it serves");
            self.took();
            self.until(false, "it has come to rest", |served| !served.array.is_settling());
        }
        let mut left = PATIENCE;
        loop {
            let replaced = self.array.replace(order);
            self.took();
            let error = match replaced {
                Ok(ReplaceOutcome::Copying) => return Ok(()),
                Ok(ReplaceOutcome::Done) => {
                    self.until(false, "it is noted", |served| served.array.is_noted());
                    return Ok(());
                }
                Err(error) => error,
            };
            let why = error.to_string();
            // What was under way when it was taken out ends, and so does a handing over.
            if !why.contains("; try again when ") || left == 0 {
                return Err(why);
            }
            left -= 1;
            self.poll();
        }
    }

    /// Returns true while a member is being copied to another file.
    pub fn is_copying(&self) -> bool {
        self.array.files().succession().is_some()
    }

    /// Stops it, as `destage stop` does.
    pub fn stop(mut self) -> (RecordingOs, ClientKnowledge, Vec<(CrashPoint, ClientKnowledge)>) {
        self.settle();
        let Self { os, array, mut known, mut ends, .. } = self;
        array.stop().expect("it stops");
        ends.extend(os.take_moments().into_iter().map(|moment| (moment, known.clone())));
        known.stopped();
        (os, known, ends)
    }

    /// Ends it as the end of the process or of the power does.
    pub fn finish(mut self, power: bool) -> (RecordingOs, ClientKnowledge) {
        // What the process had written is durable when the next has opened it, and the power may fail before that.
        self.known.end(true);
        (self.os.end(power), self.known)
    }

    pub fn state(&self) -> ArrayState {
        self.array.status().state
    }

    /// Names the devices that do not answer.
    pub fn lost(&self) -> Vec<String> {
        let devices = self.array.status().devices;
        devices.into_iter().filter(|device| !device.answers).map(|device| device.name).collect()
    }
}

const fn change(op: HostOp) -> Option<ModelChange> {
    match op {
        HostOp::Write => Some(ModelChange::Write),
        HostOp::Discard => Some(ModelChange::Discard),
        HostOp::WriteZeroes | HostOp::WriteZeroesUnmap => Some(ModelChange::Zero),
        HostOp::Read | HostOp::Flush => None,
    }
}

//! Models a modern drive in the plainest way, from its specification: dies with events that are found by looking at all of them,
//! blocks that are lists of slots, and everything else found by looking at everything.
//!
//! Where the specification is silent or can be read in two ways it goes the same way as the simulator, so that no comparison
//! tells whether that is right: a command takes one slot and is a run of pages, `fifo` passes fully valid superblocks over,
//! forced collection takes whatever gains most, and what a read waits for is waited for by all later reads of the die.

use std::collections::BTreeMap;

use destage_plan::{PageGeometry, PlacementStream};
use destage_sim::ssd::{CollectionPoint, HandleIsolation, SsdConfig, VictimPolicy};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Draws an index below `bound`.
pub fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DieWork {
    Slice,
    Program,
    Erase,
}

#[derive(Clone, Debug)]
struct QueuedWork {
    work: DieWork,
    ready: u64,
    left: u64,
    /// Superblock and unit in it, of a program.
    unit: (usize, usize),
    frees: u64,
    bypassed: u64,
}

/// Counts what a die did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DieCounts {
    pub flash_reads: u64,
    pub host_programs: u64,
    pub moved: u64,
    pub erases: u64,
    pub gc_time: u64,
    pub busy: u64,
}

#[derive(Clone, Debug)]
struct EventDie {
    queue: Vec<QueuedWork>,
    /// Holds the begin of the queue's head, if it is in service.
    running: Option<u64>,
    /// Nothing of the queue begins before this.
    free_at: u64,
    plane_read_until: Vec<u64>,
    suspended: u64,
    /// Begins and ends of slices that reads waited for.
    slices: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotUse {
    Free,
    Open,
    Sealed,
    Victim,
}

#[derive(Clone, Debug)]
struct SlotBlock {
    slots: Vec<Option<u64>>,
    written: usize,
    usage: SlotUse,
    opened: u64,
    erases: u64,
    hosts_in_unit: u64,
}

impl SlotBlock {
    fn valid(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

/// The drive.
#[derive(Clone, Debug)]
pub struct NaiveDrive {
    n: usize,
    planes: usize,
    q: usize,
    unit: usize,
    word_lines: usize,
    g: usize,
    s: usize,
    cache: u64,
    hold: usize,
    sense: u64,
    transfer: u64,
    program: u64,
    erase: u64,
    gap: u64,
    sector_link: u64,
    own: bool,
    config: SsdConfig,
    dies: Vec<EventDie>,
    pub counts: Vec<DieCounts>,
    pub unmapped_reads: u64,
    pub victims_done: u64,
    blocks: Vec<SlotBlock>,
    free: Vec<usize>,
    opened: u64,
    /// Open superblocks: of each placement handle, and of what collection moves of each, or of all.
    points: BTreeMap<(bool, usize), usize>,
    /// Holds the stream of the next writes, of each sector, and the handle of each labelled stream, in the order of their first writes.
    pub stream: PlacementStream,
    streams: BTreeMap<u64, PlacementStream>,
    labelled: Vec<PlacementStream>,
    /// Sectors written and copied, of each stream.
    pub placed: BTreeMap<PlacementStream, [u64; 2]>,
    map: BTreeMap<u64, (usize, usize)>,
    held: Vec<u64>,
    occ: u64,
    admitted: u64,
    answered: Vec<u64>,
    link: u64,
    /// The present commands to read and to write: let in, pages, time taken of the interface, and the last page.
    commands: [Option<(u64, u64, u64, u64)>; 2],
    sensed: Option<(usize, usize, u64)>,
    victim: Option<(usize, f64, usize, u64)>,
    debt: f64,
    random: Xoshiro256PlusPlus,
    timed: bool,
    /// Until when it was let run.
    pub looked_at: u64,
}

impl NaiveDrive {
    pub fn new(config: &SsdConfig, page: PageGeometry) -> Self {
        let modern = config.modern.as_ref().expect("modern");
        let bytes = page.page_bytes();
        let (n, planes, q) = (config.elements as usize, config.planes as usize, (16_384 / bytes) as usize);
        let pages = modern.pages_per_word_line as usize;
        let unit = pages * planes * q;
        let g = (modern.slice_reads as usize / (pages * planes.div_ceil(2))).max(1);
        let pages = modern.exported_pages / u64::from(page.pages_per_block()) * u64::from(page.pages_per_block());
        let usual = (pages as usize / (256 * n * unit)).clamp(g, 400.max(g));
        let word_lines = modern.word_lines.map_or(usual, |w| w as usize);
        let s = n * word_lines * unit;
        let raw = (pages * 10_000).div_ceil(10_000 - u64::from(config.reserve_bp));
        let superblocks = (raw.div_ceil(s as u64) + u64::from(modern.free_target)) as usize;
        let die = EventDie {
            queue: Vec::new(),
            running: None,
            free_at: 0,
            plane_read_until: vec![0; planes],
            suspended: 0,
            slices: Vec::new(),
        };
        let block = SlotBlock {
            slots: vec![None; s],
            written: 0,
            usage: SlotUse::Free,
            opened: 0,
            erases: 0,
            hosts_in_unit: 0,
        };
        Self {
            n,
            planes,
            q,
            unit,
            word_lines,
            g,
            s,
            cache: modern.write_cache_bytes / bytes,
            hold: (modern.write_hold_bytes / bytes) as usize,
            sense: config.read.0,
            transfer: (bytes * config.transfer_ps_per_byte + 500) / 1000,
            program: config.program.0,
            erase: config.erase.0 * word_lines as u64 / 400,
            gap: modern.command_rate.map_or(0, |rate| 1_000_000_000_u64.div_ceil(rate)),
            sector_link: modern.link_rate.map_or(0, |rate| (bytes * 1_000_000_000).div_ceil(rate)),
            own: config.collection_write_point == CollectionPoint::Own,
            config: config.clone(),
            dies: vec![die; n],
            counts: vec![DieCounts::default(); n],
            unmapped_reads: 0,
            victims_done: 0,
            blocks: vec![block; superblocks],
            free: (0..superblocks).rev().collect(),
            opened: 0,
            points: BTreeMap::new(),
            stream: PlacementStream::Unlabelled,
            streams: BTreeMap::new(),
            labelled: Vec::new(),
            placed: BTreeMap::new(),
            map: BTreeMap::new(),
            held: Vec::new(),
            occ: 0,
            admitted: 0,
            answered: Vec::new(),
            link: 0,
            commands: [None; 2],
            sensed: None,
            victim: None,
            debt: 0.0,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
            timed: false,
            looked_at: 0,
        }
    }

    pub fn begin_run(&mut self) {
        self.timed = true;
        self.counts = vec![DieCounts::default(); self.n];
        self.victims_done = 0;
        self.blocks.iter_mut().for_each(|block| block.erases = 0);
        self.placed.clear();
        self.occ = self.points.values().map(|&at| self.blocks[at].hosts_in_unit).sum::<u64>();
        self.occ += self.held.len() as u64;
    }

    fn modern(&self) -> &destage_sim::ssd::ModernConfig {
        self.config.modern.as_ref().expect("modern")
    }

    /// Returns the time of the next event on a die, and whether it is an end.
    fn next_event(die: &EventDie) -> Option<(u64, bool)> {
        let head = die.queue.first()?;
        Some(match die.running {
            Some(since) => (since + head.left, true),
            None => (die.free_at.max(head.ready), false),
        })
    }

    /// Lets something happen on a die; returns how much of the cache that frees.
    fn happen(die: &mut EventDie, (time, is_end): (u64, bool)) -> u64 {
        if !is_end {
            die.running = Some(time);
            return 0;
        }
        die.running = None;
        die.free_at = time;
        die.queue.remove(0).frees
    }

    /// Lets everything happen that ends by `now` or begins before it, in the order of time.
    fn run_until(&mut self, now: u64) {
        self.looked_at = now;
        loop {
            let events = self.dies.iter().enumerate().filter_map(|(i, die)| Some((Self::next_event(die)?, i)));
            let due = events.filter(|&((time, is_end), _)| time < now || is_end && time == now);
            let Some((event, i)) = due.min() else { break };
            self.occ -= Self::happen(&mut self.dies[i], event);
        }
    }

    pub fn begin_command(&mut self) {
        self.commands = [None; 2];
        self.sensed = None;
    }

    /// Lets a page in at the front end, the first of its command or a later one.
    fn let_in(&mut self, which: usize, now: u64, sector: u64) -> (u64, bool) {
        if let Some((at, pages, took, last)) = self.commands[which]
            && sector == last + 1
        {
            let takes = self.gap.max((pages + 1) * self.sector_link);
            self.link += takes - took;
            self.commands[which] = Some((at, pages + 1, takes, sector));
            return (at.max(now), true);
        }
        let k = self.modern().write_slots as usize;
        let slot = if self.answered.len() >= k { self.answered[self.answered.len() - k] } else { 0 };
        let at = now.max(slot).max(self.link);
        let takes = self.gap.max(self.sector_link);
        self.link = at + takes;
        self.commands[which] = Some((at, 1, takes, sector));
        (at, false)
    }

    pub fn write(&mut self, now: u64, sector: u64) -> u64 {
        let (a, is_later) = if self.timed { self.let_in(1, now, sector) } else { (0, false) };
        let mut t = a;
        if self.stream != PlacementStream::Unlabelled && !self.labelled.contains(&self.stream) {
            self.labelled.push(self.stream);
        }
        self.streams.insert(sector, self.stream);
        self.placed.entry(self.stream).or_default()[0] += 1;
        if self.hold == 0 || !self.held.contains(&sector) {
            if self.timed {
                self.run_until(a);
                self.wait_for_cache();
                t = a.max(self.admitted);
                self.occ += 1;
            }
            self.invalidate(sector);
            let mut goes = Some(sector);
            if self.hold > 0 {
                self.held.push(sector);
                goes = (self.held.len() == self.hold).then(|| self.held.remove(0));
            }
            if let Some(sector) = goes {
                self.put(sector, true, t);
                self.pace(t);
            }
        }
        let answer = t + self.modern().command_write.0;
        match self.answered.last_mut() {
            Some(last) if is_later => *last = answer.max(*last),
            _ if self.timed => self.answered.push(answer),
            _ => {}
        }
        answer
    }

    /// Takes what programs will free for a sector that waits.
    fn wait_for_cache(&mut self) {
        while self.occ >= self.cache {
            let mut best: Option<(u64, usize, usize)> = None;
            for i in 0..self.n {
                // The die's future without further reads.
                let mut die = self.dies[i].clone();
                let mut gone = 0;
                while let Some((time, is_end)) = Self::next_event(&die) {
                    if Self::happen(&mut die, (time, is_end)) > 0 {
                        if best.is_none_or(|(first, _, _)| time < first) {
                            best = Some((time, i, gone));
                        }
                        break;
                    }
                    gone += usize::from(is_end);
                }
            }
            let (time, i, at) = best.expect("something frees cache");
            let work = &mut self.dies[i].queue[at];
            self.occ -= std::mem::take(&mut work.frees);
            self.admitted = self.admitted.max(time);
        }
    }

    fn invalidate(&mut self, sector: u64) {
        if let Some((block, slot)) = self.map.remove(&sector) {
            self.blocks[block].slots[slot] = None;
        }
    }

    pub fn trim(&mut self, sector: u64) {
        if self.held.contains(&sector) {
            self.held.retain(|held| *held != sector);
            self.occ -= u64::from(self.timed);
        }
        self.invalidate(sector);
    }

    /// Reads a sector.
    pub fn read(&mut self, now: u64, sector: u64) -> u64 {
        let (a, is_later) = self.let_in(0, now, sector);
        self.run_until(a);
        let hit = a + self.modern().command_hit.0;
        let Some(&(block, slot)) = self.map.get(&sector) else {
            self.unmapped_reads += u64::from(!self.held.contains(&sector));
            return hit;
        };
        let (unit, in_unit) = (slot / self.unit, slot % self.unit);
        let own = &self.blocks[block];
        let die = unit % self.n;
        let is_open = own.usage == SlotUse::Open && own.written / self.unit == unit;
        let programs = |work: &QueuedWork| work.work == DieWork::Program && work.unit == (block, unit);
        if is_open || self.dies[die].queue.iter().any(programs) {
            return hit;
        }
        let plane = in_unit / self.q % self.planes;
        self.counts[die].flash_reads += 1;
        let page = slot / self.q;
        let read = self.modern().command_read.0;
        if let Some((_, _, end)) = self.sensed.filter(|&(b, p, _)| is_later && (b, p) == (block, page))
            && self.dies[die].plane_read_until[plane] == end
            && a <= end
        {
            let end = end + self.transfer;
            self.counts[die].busy += self.transfer;
            let own = &mut self.dies[die];
            own.plane_read_until[plane] = end;
            own.free_at = own.free_at.max(end);
            self.sensed = Some((block, page, end));
            return end + read;
        }
        let (suspend, bypass) = (self.modern().suspend.0, u64::from(self.modern().bypass));
        self.counts[die].busy += self.sense + self.transfer;
        let own = &mut self.dies[die];
        let in_read = own.plane_read_until.iter().any(|&until| until > a);
        let mut s = a.max(own.plane_read_until[plane]);
        if in_read {
            s = s.max(own.suspended);
        }
        let starts =
            own.running.or_else(|| in_read.then_some(own.queue.first().map_or(0, |w| w.ready).max(own.free_at)));
        if let (Some(begun), Some(head)) = (starts, own.queue.first().cloned()) {
            let is_slice = head.work == DieWork::Slice;
            if own.running.is_some() && is_slice || head.bypassed >= bypass {
                let end = begun + head.left;
                if is_slice {
                    own.slices.push((begun, end));
                }
                self.occ -= Self::happen(own, (end, true));
                s = s.max(end);
                own.suspended = end;
            } else {
                own.queue[0].bypassed += 1;
                if own.running.take().is_some() {
                    own.queue[0].left -= a - begun;
                    own.queue[0].ready = 0;
                    s = a + suspend;
                    own.suspended = s;
                }
            }
        }
        let end = s + self.sense + self.transfer;
        own.plane_read_until[plane] = end;
        own.free_at = own.free_at.max(end);
        self.sensed = Some((block, page, end));
        end + read
    }

    fn push(&mut self, die: usize, work: DieWork, takes: u64, t: u64, unit: (usize, usize), frees: u64) {
        if self.timed {
            self.counts[die].busy += takes;
            self.dies[die].queue.push(QueuedWork { work, ready: t, left: takes, unit, frees, bypassed: 0 });
        }
    }

    /// Returns the handle of a sector.
    pub fn handle_of(&self, stream: PlacementStream) -> usize {
        let order = self.labelled.iter().position(|own| *own == stream).map_or(0, |order| order + 1);
        order % self.modern().placement.map_or(1, |own| own.handles.min(7) as usize)
    }

    /// Returns the write point of a sector: whether it is collection's own, and of which handle.
    fn point(&mut self, sector: u64, of_host: bool) -> (bool, usize) {
        let stream = self.streams[&sector];
        self.placed.entry(stream).or_default()[1] += u64::from(!of_host);
        let is_mixed = self.modern().placement.is_none_or(|own| own.isolation == HandleIsolation::Initially);
        match self.own && !of_host {
            true if is_mixed => (true, 0),
            is_own => (is_own, self.handle_of(stream)),
        }
    }

    /// Puts a sector at a write point.
    fn put(&mut self, sector: u64, of_host: bool, t: u64) {
        let point = self.point(sector, of_host);
        let at = self.points.get(&point).copied().unwrap_or_else(|| {
            let at = self.free.pop().expect("a free superblock");
            let block = &mut self.blocks[at];
            block.usage = SlotUse::Open;
            block.written = 0;
            block.opened = self.opened;
            block.hosts_in_unit = 0;
            self.opened += 1;
            self.points.insert(point, at);
            at
        });
        let block = &mut self.blocks[at];
        let slot = block.written;
        block.slots[slot] = Some(sector);
        block.written += 1;
        block.hosts_in_unit += u64::from(of_host);
        self.map.insert(sector, (at, slot));
        let unit = slot / self.unit;
        let counts = &mut self.counts[unit % self.n];
        *(if of_host { &mut counts.host_programs } else { &mut counts.moved }) += 1;
        if (slot + 1).is_multiple_of(self.unit) {
            let frees = std::mem::take(&mut self.blocks[at].hosts_in_unit);
            self.push(unit % self.n, DieWork::Program, self.program, t, (at, unit), frees);
        }
        if slot + 1 == self.s {
            self.blocks[at].usage = SlotUse::Sealed;
            self.points.remove(&point);
        }
    }

    /// Chooses a victim.
    fn choose(&mut self, forced: bool) -> Option<usize> {
        let sealed: Vec<usize> = (0..self.blocks.len()).filter(|&i| self.blocks[i].usage == SlotUse::Sealed).collect();
        let gains = |i: &usize| self.blocks[*i].valid() < self.s;
        let fewest = |among: &[usize]| among.iter().copied().min_by_key(|&i| (self.blocks[i].valid(), i)).filter(gains);
        let chosen = match self.modern().victim {
            VictimPolicy::Greedy => fewest(&sealed),
            VictimPolicy::Fifo => sealed.iter().copied().filter(gains).min_by_key(|&i| self.blocks[i].opened),
            VictimPolicy::DChoice(d) => {
                let mut random = self.random.clone();
                let draw = |_| sealed[below(&mut random, sealed.len() as u64) as usize];
                let drawn: Vec<usize> = if sealed.is_empty() { Vec::new() } else { (0..d).map(draw).collect() };
                let found = fewest(&drawn);
                let again = if forced { found.or_else(|| fewest(&sealed)) } else { found };
                self.random = random;
                again
            }
            VictimPolicy::CostBenefit => {
                let benefit = |i: usize| {
                    let (v, age) = (self.blocks[i].valid(), self.opened - self.blocks[i].opened - 1);
                    (self.s - v) as f64 * age as f64 / (v + 1) as f64
                };
                let gaining: Vec<usize> = sealed.iter().copied().filter(gains).collect();
                let most = gaining.iter().map(|&i| benefit(i)).fold(f64::NEG_INFINITY, f64::max);
                gaining.into_iter().find(|&i| benefit(i) >= most)
            }
        }?;
        let v = self.blocks[chosen].valid() as f64;
        self.blocks[chosen].usage = SlotUse::Victim;
        self.victim = Some((chosen, v / (self.s as f64 - v), 0, 0));
        Some(chosen)
    }

    /// Collects a slice.
    fn slice(&mut self, t: u64) {
        let Some((victim, ratio, j, reclaimed)) = self.victim else { return };
        let die = j % self.n;
        let lines = j / self.n * self.g..((j / self.n + 1) * self.g).min(self.word_lines);
        let (mut reads, mut sectors) = (0, Vec::new());
        for line in lines.clone() {
            for flash_page in 0..self.unit / (self.planes * self.q) {
                for pair in (0..self.planes).step_by(2) {
                    let mut found = false;
                    for plane in pair..(pair + 2).min(self.planes) {
                        for i in 0..self.q {
                            let slot =
                                (line * self.n + die) * self.unit + (flash_page * self.planes + plane) * self.q + i;
                            if let Some(sector) = self.blocks[victim].slots[slot].take() {
                                sectors.push(sector);
                                found = true;
                            }
                        }
                    }
                    reads += u64::from(found);
                }
            }
        }
        if !sectors.is_empty() {
            let takes = reads * self.sense + sectors.len() as u64 * self.transfer;
            self.counts[die].gc_time += takes;
            self.push(die, DieWork::Slice, takes, t, (0, 0), 0);
        }
        for &sector in &sectors {
            self.put(sector, false, t);
        }
        self.debt -= sectors.len() as f64;
        self.victim = Some((victim, ratio, j + 1, reclaimed + (lines.len() * self.unit) as u64));
        if j + 1 == self.n * self.word_lines.div_ceil(self.g) {
            self.victim = None;
            self.victims_done += 1;
            for die in 0..self.n {
                self.counts[die].erases += 1;
                self.counts[die].gc_time += self.erase;
                self.push(die, DieWork::Erase, self.erase, t, (0, 0), 0);
            }
            self.blocks[victim].usage = SlotUse::Free;
            self.blocks[victim].erases += 1;
            self.free.push(victim);
        }
    }

    /// Paces collection.
    fn pace(&mut self, t: u64) {
        let unwritten: usize = self.points.values().map(|&at| self.s - self.blocks[at].written).sum();
        let bound = self.points.len().saturating_sub(2) * self.s / 2;
        let room = (self.free.len() * self.s + unwritten).saturating_sub(bound) as u64;
        let room = room + self.victim.map_or(0, |victim| victim.3);
        let gain = self.modern().pace_gain_milli as f64 / 1000.0;
        let x = 1.0 + gain * (f64::from(self.modern().free_target) - room as f64 / self.s as f64);
        if x > 0.0 {
            if self.victim.is_none() {
                self.choose(false);
            }
            if let Some((_, ratio, _, _)) = self.victim {
                self.debt += x * ratio;
                while self.debt > 0.0 && self.victim.is_some() {
                    self.slice(t);
                }
            }
        }
        while self.free.len() < 2 && (self.victim.is_some() || self.choose(true).is_some()) {
            self.slice(t);
        }
    }

    /// Collects so many superblocks.
    pub fn collect(&mut self, t: u64, superblocks: u32) {
        for _ in 0..superblocks {
            if self.victim.is_none() && self.choose(true).is_none() {
                break;
            }
            while self.victim.is_some() {
                self.slice(t);
            }
        }
    }

    /// Returns the time at which a die is idle if no further reads come.
    pub fn idle_at(&self, die: usize) -> u64 {
        let mut die = self.dies[die].clone();
        while let Some(event) = Self::next_event(&die) {
            Self::happen(&mut die, event);
        }
        die.free_at
    }

    /// Is true if a die is in a slice of collection.
    pub fn is_in_slice(&self, die: usize, now: u64) -> bool {
        let mut copy = self.clone();
        copy.run_until(now);
        let own = &copy.dies[die];
        let begins_now = Self::next_event(own) == Some((now, false));
        let is_slice = own.queue.first().is_some_and(|head| head.work == DieWork::Slice);
        let waited_for = own.slices.iter().any(|&(begin, end)| begin <= now && now < end);
        waited_for || is_slice && (own.running.is_some_and(|since| since <= now) || begins_now)
    }

    /// The die of a sector that lies in the flash.
    pub fn die_of(&self, sector: u64) -> Option<usize> {
        self.map.get(&sector).map(|&(_, slot)| slot / self.unit % self.n)
    }

    pub fn free_superblocks(&self) -> usize {
        self.free.len()
    }

    /// Valid, free and outdated sectors.
    pub fn states(&self) -> (u64, u64, u64) {
        let valid = self.map.len() as u64;
        let open: usize = self.points.values().map(|&at| self.s - self.blocks[at].written).sum();
        let free = (self.free.len() * self.s + open) as u64;
        (valid, free, (self.blocks.len() * self.s) as u64 - valid - free)
    }

    /// Erases of every superblock.
    pub fn erases(&self) -> Vec<u64> {
        self.blocks.iter().map(|block| block.erases).collect()
    }
}

//! GGC, globally coordinated garbage collection: the SSDs of an array collect at the same time, so that
//! requests wait for one collection instead of for one after the other (Kim et al., Harmonia, MSST'11;
//! specs §8.8). It stands around a cache, and decides nothing but which devices are asked to collect.
//!
//! * *Reactive*: when a member begins to collect on its own, all others are asked to.
//!   If they are to, they also say when they have come near to where they have to collect, and all
//!   are asked when so many have said so: as long as fewer have, it can be waited for more.
//! * *Proactive*, beside that: members say when they have come near to where they have to collect, and when
//!   nothing was asked for a while all are asked to.
//!
//! A member that was asked is not asked again before it is done, and what it collects meanwhile begins no
//! round: its collection would ask all others, and theirs it.

use destage_plan::{
    Class, Control, Dev, DevSet, DeviceChange, Event, Nanos, OpId, Out, ParamSpec, Params, Quota, Refusal, SpecError,
    Step, StepSet, TimerId, TimerOwner, quantity,
};
use destage_raid::array::MAX_MEMBERS;

use crate::{CacheLayer, CollectionRounds, HostCacheError, LayerInfo, LayerPlace, LayeredCache, ServedTier};

const MODE: ParamSpec = ParamSpec {
    name: "mode",
    default: "reactive",
    values: "reactive, proactive",
    unit: "",
    help: "whether all SSDs collect only when one does, or also when nothing is asked and one will have to soon",
};

const QUOTA: ParamSpec = ParamSpec {
    name: "quota",
    // "Forcefully triggering GCs of individual SSDs at the same time" (LAWC, section 3.2): a collection stops where any does.
    default: "watermark",
    values: "watermark, same, 1 to 65535",
    unit: "blocks",
    help: "how much each element of the others collects: up to its own threshold, as many blocks as the first, or so many",
};

const IDLE: ParamSpec = ParamSpec {
    name: "idle",
    default: "50ms",
    values: "a time, 1us to 1h",
    unit: "",
    help: "mode=proactive: for how long nothing is asked",
};

const SOFT: ParamSpec = ParamSpec {
    name: "soft",
    default: "7",
    values: "0 to 100",
    unit: "%",
    help: "mode=proactive, or with members: free blocks at which an element will have to collect soon",
};

const MEMBERS: ParamSpec = ParamSpec {
    name: "members",
    default: "off",
    values: "off, 1 to 28",
    unit: "members",
    help: "mode=reactive: all collect when so many have come down to soft, too, before one has to",
};

/// Asks in tiny arrays, too.
const PROACTIVE: [(&str, &str); 2] = [(MODE.name, "proactive"), (IDLE.name, "20us")];

/// Describes the layer.
pub(crate) static GGC: LayerInfo = LayerInfo {
    name: "ggc",
    title: "all SSDs of the array are told to collect garbage when one does",
    about: "When one SSD of the array begins to collect garbage the others are told to collect as well, so that \
            requests wait for one collection instead of for one after the other. It stands around a cache and \
            changes nothing else of it.",
    paper: "GGC in LAWC",
    place: LayerPlace::Around,
    needs_collectors: true,
    params: &[MODE, QUOTA, IDLE, SOFT, MEMBERS],
    replaces: &[],
    figures: &[],
    small: |pages| {
        let small = if pages % 3 == 1 { [(MEMBERS.name, "1"), (SOFT.name, "9")] } else { PROACTIVE };
        small.map(|(key, value)| (key, value.to_owned())).to_vec()
    },
    build,
};

/// Goes off when nothing was asked for a while.
const QUIET: TimerId = TimerId { owner: TimerOwner::Around, number: 0 };

/// Blocks that a collection usually reclaims of an element (specs §1.2), if devices do not tell.
const USUAL: u32 = 2;

/// Names the amount that members are asked to collect.
#[derive(Clone, Copy, Debug)]
enum CollectionRequests {
    /// Asks for as much as the member collects that began.
    Same,
    This(Quota),
}

/// Decides when members are asked to collect before one has to.
#[derive(Clone, Copy, Debug)]
struct ProactiveCollection {
    /// Nothing was asked for that long.
    idle: Nanos,
    /// Free blocks at which members say that they will have to, in hundredths of a percent.
    soft: u32,
    /// A member has said so, and a timer is set.
    is_near: bool,
}

/// Decides how many members have to come near before all are asked.
#[derive(Clone, Copy, Debug)]
struct NearThreshold {
    /// So many, or all that answer if these are fewer.
    of: u32,
    /// As [`ProactiveCollection::soft`].
    soft: u32,
    /// Those that have, and did not collect since.
    near: DevSet,
}

/// A member that was asked and is not done.
#[derive(Clone, Copy, Debug)]
struct AskedMember {
    op: OpId,
    dev: Dev,
    quota: Quota,
}

/// Has the members of an array collect together.
struct CoordinatedCollection {
    asks: CollectionRequests,
    proactive: Option<ProactiveCollection>,
    several: Option<NearThreshold>,
    asked: Vec<AskedMember>,
    /// Members that do not answer.
    lost: DevSet,
    /// Is the time of the last request.
    submitted: Nanos,
    refused: bool,
    rounds: CollectionRounds,
}

fn build(inner: Box<dyn ServedTier>, params: &Params) -> Result<Box<dyn ServedTier>, HostCacheError> {
    let asks = match params.text(QUOTA.name) {
        "same" => CollectionRequests::Same,
        "watermark" => CollectionRequests::This(Quota::Watermark),
        _ => CollectionRequests::This(Quota::Blocks(params.number::<u16>(QUOTA.name, 1..)?.into())),
    };
    let soft = quantity::decimal(params.text(SOFT.name), 100).ok().filter(|soft| *soft <= 10_000);
    let soft = soft.ok_or_else(|| params.refuse(SOFT.name))? as u32;
    let several = several(soft, params)?;
    let proactive = proactive(soft, several.is_some(), params)?;
    let members = inner.array().config().geometry.members();
    if let Some(several) = several.filter(|several| several.of > members.into()) {
        return Err(HostCacheError::Members { key: MEMBERS.name, asked: several.of, members });
    }
    let coordinated = CoordinatedCollection {
        asks,
        proactive,
        several,
        asked: Vec::new(),
        lost: DevSet::EMPTY,
        submitted: Nanos::ZERO,
        refused: false,
        rounds: CollectionRounds::default(),
    };
    Ok(Box::new(LayeredCache::new(coordinated, inner)))
}

fn several(soft: u32, params: &Params) -> Result<Option<NearThreshold>, SpecError> {
    if params.text(MEMBERS.name) == MEMBERS.default {
        return Ok(None);
    }
    let of = params.number(MEMBERS.name, 1..=u32::from(MAX_MEMBERS))?;
    Ok(Some(NearThreshold { of, soft, near: DevSet::EMPTY }))
}

fn proactive(soft: u32, several: bool, params: &Params) -> Result<Option<ProactiveCollection>, SpecError> {
    const HOUR: Nanos = Nanos(3_600_000_000_000);
    let idle = quantity::time(params.text(IDLE.name)).ok().filter(|time| (Nanos(1_000)..=HOUR).contains(time));
    let idle = idle.ok_or_else(|| params.refuse(IDLE.name))?;
    let proactive = params.choice(MODE.name, &[("reactive", false), ("proactive", true)])?;
    // They would have no effect.
    let is_given = |spec: &ParamSpec| params.text(spec.name) != spec.default;
    let reason = if proactive && several {
        "members has no effect with mode = proactive".to_owned()
    } else if !proactive && is_given(&IDLE) {
        "idle has no effect with mode = reactive".to_owned()
    } else if !proactive && !several && is_given(&SOFT) {
        "soft has no effect with mode = reactive and members = off".to_owned()
    } else {
        return Ok(proactive.then_some(ProactiveCollection { idle, soft, is_near: false }));
    };
    Err(SpecError::Composition { spec: GGC.name.into(), reason })
}

/// The members of the array.
fn members(inner: &dyn ServedTier) -> DevSet {
    inner.array().config().geometry.member_set()
}

impl CoordinatedCollection {
    fn is_asked(&self, dev: Dev) -> bool {
        self.asked.iter().any(|asked| asked.dev == dev)
    }

    /// Asks all members, but for the one that collects already.
    fn ask(&mut self, members: DevSet, but: Option<Dev>, quota: Quota, out: &mut Out) {
        for dev in (members - self.lost).iter() {
            if let Some(several) = &mut self.several {
                several.near.remove(dev);
            }
            // A member that collects on request must not ask the others again, or
            // collections would never end.
            if but != Some(dev) && !self.is_asked(dev) {
                let op = out.open(Class::Internal, None, None);
                self.asked.push(AskedMember { op, dev, quota });
                self.rounds.asked += 1;
            }
        }
    }

    /// A member has begun to collect.
    fn begins(&mut self, dev: Dev, blocks: u32, inner: &dyn ServedTier, out: &mut Out) {
        let members = members(inner);
        // A member that was asked begins to collect too; answering that would ask
        // the one that asked it.
        if !members.contains(dev) || self.is_asked(dev) || !inner.array().is_ready() {
            return;
        }
        self.rounds.reactive += 1;
        self.ask(members, Some(dev), self.quota(blocks), out);
    }

    /// Returns the quota that members are asked for when one collects so many blocks; 0 if that is unknown.
    const fn quota(&self, blocks: u32) -> Quota {
        match self.asks {
            CollectionRequests::Same => Quota::Blocks(if blocks == 0 { USUAL } else { blocks }),
            CollectionRequests::This(quota) => quota,
        }
    }

    /// A member has collected. What else has to soon says so again.
    fn ends(&mut self, dev: Dev) {
        if let Some(several) = &mut self.several {
            several.near.remove(dev);
        }
    }

    /// A member will have to collect soon.
    fn comes_near(&mut self, dev: Dev, inner: &dyn ServedTier, out: &mut Out) {
        let members = members(inner);
        let is_member = members.contains(dev);
        let answers = members - self.lost;
        if let Some(several) = self.several.as_mut().filter(|_| is_member) {
            several.near.insert(dev);
            // Lost members cannot come near, so fewer are enough in a degraded
            // array.
            let are_enough = (several.near & answers).len() >= several.of.min(answers.len());
            if are_enough && inner.array().is_ready() {
                self.rounds.soft += 1;
                self.ask(members, None, self.quota(0), out);
            }
        }
        if let Some(proactive) = self.proactive.as_mut().filter(|_| is_member)
            && !std::mem::replace(&mut proactive.is_near, true)
        {
            out.timer(QUIET, out.now() + proactive.idle);
        }
    }

    /// Nothing may have been asked for a while.
    fn is_quiet(&mut self, inner: &dyn ServedTier, out: &mut Out) {
        let Some(proactive) = &mut self.proactive else { return };
        // Requests move the quiet moment on. The timer is set anew only when it
        // goes off, not at each request.
        let now = out.now();
        let quiet_at = self.submitted + proactive.idle;
        if now < quiet_at {
            out.timer(QUIET, quiet_at);
        } else if out.live() > 0 || !inner.array().is_ready() {
            out.timer(QUIET, now + proactive.idle);
        } else {
            proactive.is_near = false;
            self.rounds.proactive += 1;
            self.ask(members(inner), None, self.quota(0), out);
        }
    }

    /// Handles an event of an operation, if that is its own; whether it was.
    fn handle_own(&mut self, event: Event<'_>, inner: &mut dyn ServedTier, out: &mut Out) -> bool {
        let (Event::Granted(op) | Event::OpDone(op) | Event::OpStuck { op, .. }) = event else { return false };
        let Some(at) = self.asked.iter().position(|asked| asked.op == op) else { return false };
        match event {
            Event::OpDone(_) => {
                self.asked.swap_remove(at);
            }
            Event::OpStuck { devs, .. } => {
                out.abandon(op);
                // As from an operation of its own the array hears that a member does not answer.
                for dev in devs.iter() {
                    self.lost.insert(dev);
                    inner.handle(Event::Device { dev, change: DeviceChange::Failed }, out);
                }
            }
            _ => {
                let AskedMember { dev, quota, .. } = self.asked[at];
                out.step(op, Step::Collect { dev, quota }, StepSet::EMPTY);
                out.close(op);
            }
        }
        true
    }
}

impl CacheLayer for CoordinatedCollection {
    fn handle(&mut self, event: Event<'_>, inner: &mut dyn ServedTier, out: &mut Out) {
        if self.refused || self.handle_own(event, inner, out) {
            return;
        }
        match event {
            Event::Start(start) => {
                // Refused at the start: a device that cannot be told to collect
                // would make the layer do nothing in silence.
                let cannot = members(inner) - start.collectors;
                if !cannot.is_empty() {
                    self.refused = true;
                    return out.refuse(Refusal::NoCollectors(cannot));
                }
                self.lost = start.missing;
            }
            Event::Submit(_) => self.submitted = out.now(),
            Event::Device { dev, change: DeviceChange::Failed } => self.lost.insert(dev),
            Event::Device { dev, change: DeviceChange::Replaced } => {
                self.lost.remove(dev);
                // Nothing is known of the one in its place.
                self.ends(dev);
            }
            Event::Timer(QUIET) => return self.is_quiet(inner, out),
            // It stops: nothing is to begin any more.
            Event::Control(Control::Clean) => {
                (self.proactive, self.several) = (None, None);
                out.cancel(QUIET);
            }
            _ => {}
        }
        // The cache hears of the event first; what the layer opens then comes after
        // the cache's own operations.
        inner.handle(event, out);
        match event {
            Event::DeviceGc { dev, on: true, blocks, .. } => self.begins(dev, blocks, inner, out),
            Event::DeviceGc { dev, on: false, .. } => self.ends(dev),
            Event::DeviceNearGc(dev) => self.comes_near(dev, inner, out),
            _ => {}
        }
    }

    fn gc_warning(&self, _: &dyn ServedTier) -> Option<u32> {
        let proactive = self.proactive.map(|proactive| proactive.soft);
        proactive.or(self.several.map(|several| several.soft))
    }

    fn rounds(&self, _: &dyn ServedTier) -> Option<CollectionRounds> {
        Some(self.rounds)
    }
}

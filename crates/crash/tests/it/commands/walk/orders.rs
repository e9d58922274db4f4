//! Gives orders about devices: an array refuses them exactly if it needs the device, and loses nothing by a refusal.

use std::path::{Path, PathBuf};

use destage_engine::DeviceReplacement;
use destage_plan::{Dev, DevSet};

use super::super::killed::replacement;
use super::super::served::MEMBERS;
use super::RandomWalk;

impl RandomWalk {
    /// Gives an order about a device; checks that it is refused exactly if the array needs the device.
    pub(super) fn order(&mut self, dev: Dev, order: &DeviceReplacement) {
        self.served.settle();
        let files = self.served.array.files();
        let (controller, answers) = (files.engine().controller(), files.answers(dev));
        let others = self.degraded() - DevSet::one(dev);
        let is_member = dev.index() < MEMBERS;
        let is_stale = self.has_device() && !controller.is_caching() && controller.stale_rows() > 0;
        // A member that nobody has asked for anything is found to have failed before another is taken out.
        let is_else_broken = is_member
            && answers
            && self
                .state
                .broken
                .iter()
                .any(|path| (0..MEMBERS).any(|at| at != dev.index() && self.path_of(at) == *path));
        let is_copied = is_member && order.path.is_some() && files.copies(dev);
        let must_be_refused = order.takes_out && !answers
            || is_else_broken
            || is_member && !others.is_empty()
            || is_member && is_stale && !self.degraded().contains(dev);
        // It stays in its place: nothing can be lost by that.
        let must_be_refused = if is_copied { self.served.is_copying() } else { must_be_refused };
        let before = (self.degraded(), self.served.lost());
        // A device that fails while the array comes to rest changes what is allowed.
        let is_certain = self.state.broken.is_empty() || !answers;
        // A file that takes the place of what is broken meanwhile mends that.
        let is_certain_of_refusal = is_certain || is_else_broken && !is_copied && !self.served.is_copying();
        let ordered = self.served.replace(order);
        self.note(&format!("  {order}: {ordered:?}"));
        if ordered.is_ok() {
            let is_wrong = must_be_refused && is_certain_of_refusal;
            assert!(!is_wrong, "{order} is not refused, though {before:?} are lost");
            if is_copied {
                return;
            }
            let path = self.path_of(dev.index());
            // A file that is taken out stays as it is.
            self.state.broken.retain(|broken| *broken != path || order.takes_out);
            self.state.refilled.push(path);
            return;
        }
        let why = ordered.unwrap_err();
        assert!(must_be_refused || !is_certain, "{order} is refused: {why}");
        if is_certain {
            self.assert_no_more_is_lost(&before, &why);
        }
    }

    /// Checks that no more is lost than was; a member may have been filled meanwhile.
    fn assert_no_more_is_lost(&self, before: &(DevSet, Vec<String>), why: &str) {
        let more = self.degraded() - before.0;
        let lost = self.served.lost();
        let is_kept = more.is_empty() && lost.iter().all(|name| before.1.contains(name));
        assert!(is_kept, "a refused order costs {more:?}, and {lost:?} are lost: {why}");
    }

    /// Copies a member, or tries to, while whatever comes next goes on beside it or comes after it.
    pub(super) fn copy(&mut self) {
        let dev = self.state.dice.below(MEMBERS as u64) as usize;
        let path = self.state.fresh_file(&self.served.os);
        let is_certain = self.is_whole() && !self.served.is_copying();
        self.order(Dev(dev as u8), &replacement(&dev.to_string(), Some(&path)));
        if self.state.dice.one_in(2) {
            return;
        }
        let loaded = !self.state.reads_alone;
        self.served.until(loaded, "it is copied", |served| !served.is_copying());
        if is_certain {
            assert_eq!(self.path_of(dev), Path::new(&path), "it takes the member's place");
        }
    }

    /// Replaces a device: mostly a lost one, else any.
    pub(super) fn replace(&mut self) {
        let all = MEMBERS as u64 + u64::from(self.has_device());
        let dev = match self.degraded().lowest() {
            Some(dev) if !self.state.dice.one_in(3) => dev,
            _ => Dev(self.state.dice.below(all) as u8),
        };
        let own = self.path_of(dev.index());
        let is_own =
            !self.state.broken.contains(&own) && !self.served.array.files().answers(dev) && self.state.dice.one_in(2);
        let path = (!is_own).then(|| self.state.fresh_file(&self.served.os));
        let name = if dev.index() < MEMBERS { dev.0.to_string() } else { "cache".to_owned() };
        self.order(dev, &replacement(&name, path.as_deref()));
    }

    /// Names a file that must not take a member's place: whatever the array is like that is refused, and changes nothing.
    pub(super) fn replace_wrongly(&mut self) {
        let dev = self.state.dice.below(MEMBERS as u64) as usize;
        let (own, was_copied) = (self.path_of(dev), self.served.is_copying());
        let len = self.served.array.files().config().file_bytes(dev) as usize;
        let other = self.path_of((dev + 1) % MEMBERS);
        let wrong: PathBuf = match self.state.dice.below(4) {
            0 => other,
            1 => {
                self.served.os.put(Path::new("/array/user"), &b"precious".repeat(len.div_ceil(8))[..len]);
                "/array/user".into()
            }
            2 => {
                self.served.os.put(Path::new("/array/short"), &vec![0; len - 1]);
                "/array/short".into()
            }
            _ => {
                let copied = self.served.os.content(&other).expect("a member");
                self.served.os.put(Path::new("/array/copy"), &copied);
                "/array/copy".into()
            }
        };
        self.served.settle();
        // A member that is copied may be none any more when the order is refused.
        let is_member = self.served.array.files().config().devices.iter().any(|device| device.path == wrong);
        // None if it was taken away, since a sync of it had failed: it stays the place of a lost member.
        let before = self.served.os.content(&wrong);
        let lost = (self.degraded(), self.served.lost());
        let is_certain = self.state.broken.is_empty();
        let order = replacement(&dev.to_string(), wrong.to_str());
        self.note(&format!("  {order}, which must be refused"));
        let refused = self.served.replace(&order).expect_err("it must not take a member's place");
        // A file that it was copied to may have its place by now.
        assert!(
            !refused.is_empty() && (self.path_of(dev) == own || was_copied && self.path_of(dev) != wrong),
            "{refused}"
        );
        if is_certain {
            self.assert_no_more_is_lost(&lost, &refused);
            assert!(is_member || self.served.os.content(&wrong) == before, "{refused}: it holds what it held");
        }
    }
}

//! `Synchronization` of Algorithm 1 (specs §8.5, §8.10.2, 5, 18, 19), of strips and of groups.

use super::*;

/// Lists, by members, what there is to write.
#[derive(Clone)]
struct Ready {
    chosen: Vec<bool>,
    busy: Vec<bool>,
    empty: Vec<bool>,
    /// Writes wait for the room that what is chosen takes.
    full: bool,
}

impl Model {
    pub(super) fn are_strips_released(&mut self, ready: &[bool]) -> bool {
        let mut full = Vec::new();
        for op in self.entering.clone() {
            let cells = self.ops[op].cells.clone();
            full.extend(self.full_for(&cells));
        }
        let ready = Ready {
            chosen: ready.to_vec(),
            busy: self.writing.clone(),
            empty: self.members.iter().map(|pool| pool.entries.is_empty()).collect(),
            full: full.into_iter().any(|member| ready[member]),
        };
        self.is_released(&ready)
    }

    /// The members that a group is written to if it goes now.
    pub(super) fn members_of_group(&mut self, group: u64) -> Vec<usize> {
        let entry = self.groups_of(group).entry(group).expect("it is there").clone();
        let data = entry.pages.iter().filter(|page| page.dirty).map(|page| page.cell.1);
        let columns: Vec<usize> = data.chain(self.parity_columns()).collect();
        columns.into_iter().map(|column| self.shape.member(group, column)).collect()
    }

    /// Groups are chosen, as many as may be under way, and all of them go when they are released.
    pub(super) fn destage_groups_together(&mut self) {
        loop {
            while let Some(group) = self.next_group() {
                self.groups_of(group).entry(group).expect("it is next").chosen = true;
                self.chosen.push(group);
            }
            let mut going = self.chosen.clone();
            going.retain(|group| self.groups_of(*group).can_go(*group));
            let mut chosen = vec![false; self.shape.members];
            for group in &going {
                self.members_of_group(*group).into_iter().for_each(|member| chosen[member] = true);
            }
            let busy: Vec<bool> = (0..self.shape.members)
                .map(|member| self.groups.iter().any(|(.., members)| members.contains(&member)))
                .collect();
            let empty = chosen.iter().zip(&busy).map(|(chosen, busy)| !chosen && !busy).collect();
            let ready = Ready { chosen, busy, empty, full: !self.waiting.is_empty() };
            if self.clean && going.is_empty() || !self.clean && !self.is_released(&ready) {
                return;
            }
            for group in going {
                self.chosen.retain(|other| *other != group);
                self.destage_group(group);
            }
        }
    }

    /// The time begins to run.
    fn arm(&mut self) {
        let timeout = self.timeout.filter(|_| self.options.auto).unwrap_or(self.options.timeout);
        self.deadline = Some(self.now + timeout);
    }

    fn is_released(&mut self, ready: &Ready) -> bool {
        let before = self.deadline;
        let released = self.decides(ready);
        if let Some(deadline) = self.deadline.filter(|_| self.deadline != before) {
            self.figures[9] += 1;
            self.figures[10] += deadline - self.now;
        }
        released
    }

    fn decides(&mut self, ready: &Ready) -> bool {
        let Options { since_first_ready, on_full, empty_blocks, .. } = self.options;
        if self.deadline.is_none() && !since_first_ready {
            self.arm();
        }
        if !ready.chosen.contains(&true) {
            if self.deadline.is_some_and(|deadline| deadline <= self.now) && !since_first_ready {
                // Nothing is written, and the timer is reset.
                self.arm();
            }
            return false;
        }
        let waited_for = |member: &usize| {
            let Ready { chosen, busy, empty, .. } = ready;
            busy[*member] || !chosen[*member] && (empty_blocks || !empty[*member])
        };
        if self.deadline.is_none() {
            self.arm();
        }
        let why = if !(0..self.shape.members).any(|member| waited_for(&member)) {
            2
        } else if self.deadline.expect("it runs") <= self.now {
            3
        } else if on_full && ready.full {
            4
        } else {
            return false;
        };
        self.figures[why] += 1;
        self.deadline = None;
        if !since_first_ready {
            self.arm();
        }
        true
    }
}

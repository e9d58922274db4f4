//! Places in the LRU stack against lists of every size that are kept as lists, and a worked example.

use destage_trace::RecencyStack;
use proptest::prelude::*;

/// Lists the actions on a thing.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Touch(usize),
    Forget(usize),
}

/// An LRU list of so many things, the latest touched first.
struct List(usize, Vec<usize>);

impl List {
    fn touch(&mut self, thing: usize) -> bool {
        let held = self.1.iter().position(|&held| held == thing);
        if let Some(at) = held {
            self.1.remove(at);
        }
        self.1.insert(0, thing);
        self.1.truncate(self.0);
        held.is_some()
    }

    fn forget(&mut self, thing: usize) {
        self.1.retain(|&held| held != thing);
    }
}

fn deeds(things: usize, forgets: u32) -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        10 => (0..things).prop_map(Deed::Touch),
        forgets => (0..things).prop_map(Deed::Forget),
    ];
    prop::collection::vec(deed, 0..400)
}

/// A list of every size, and one that holds everything.
fn check(deeds: &[Deed], things: usize, number: impl Fn(usize) -> usize) {
    let mut lists: Vec<_> = (1..=things + 1).map(|size| List(size, Vec::new())).collect();
    let mut recency = RecencyStack::default();
    for &deed in deeds {
        match deed {
            Deed::Touch(thing) => {
                let above = recency.touch(number(thing));
                for list in &mut lists {
                    let held = above.is_some_and(|above| (above as usize) < list.0);
                    assert_eq!(list.touch(thing), held, "a list of {} and {above:?} above", list.0);
                }
            }
            Deed::Forget(thing) => {
                recency.forget(number(thing));
                for list in &mut lists {
                    list.forget(thing);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn lists_of_every_size_hold_what_lies_high_enough(deeds in deeds(12, 1)) {
        check(&deeds, 12, |thing| thing);
    }

    #[test]
    fn forgotten_things_leave_room(deeds in deeds(9, 4)) {
        check(&deeds, 9, |thing| thing);
    }

    #[test]
    fn numbers_may_lie_far_apart(deeds in deeds(40, 2)) {
        check(&deeds, 40, |thing| thing * 64 + 5);
    }
}

#[test]
fn moments_are_numbered_anew() {
    // More touches than there are moments at first, with holes in between.
    let deeds: Vec<_> = (0..20_000)
        .map(|i: usize| {
            let thing = i.wrapping_mul(2_654_435_761) >> 7;
            if i % 7 == 3 { Deed::Forget(thing % 30) } else { Deed::Touch(thing % 30) }
        })
        .collect();
    check(&deeds, 30, |thing| thing);
}

#[test]
fn a_hole_is_room_for_those_lists_that_held_the_thing() {
    let mut recency = RecencyStack::default();
    for thing in [0, 1, 2, 3] {
        assert_eq!(recency.touch(thing), None);
    }
    // From the top 3, 2, a hole, 0.
    recency.forget(1);
    assert_eq!(recency.touch(4), None);
    // Lists of 3 and more had a free place, hence hold 2 still; one of 2 gave it up. Nobody had to give 0 up for it.
    assert_eq!([recency.touch(2), recency.touch(0)], [Some(2), Some(3)]);
    // Nothing is known of what was forgotten, nor of what never was.
    assert_eq!(recency.touch(1), None);
    recency.forget(77);
    assert_eq!(recency.touch(1), Some(0));
}

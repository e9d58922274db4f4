//! Selects the trace's volumes that take part, and maps them into one address space.

use std::str::FromStr;
use std::sync::Arc;

/// Says which of the trace's volumes take part, and how they share one address space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeSelection {
    /// Gives every volume addresses of its own.
    #[default]
    Each,
    /// Lays all volumes over each other.
    Merge,
    /// Gives these volumes addresses of their own, and no other takes part.
    Only(VolumeChoice),
}

/// Names volumes as a user does: by the names that the trace has, and all tables, or, after `#`, by their number in order
/// of first appearance. Commas separate them, and may be within a name (`8,16`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeChoice {
    asked: Arc<[String]>,
}

impl FromStr for VolumeChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let asked: Arc<[String]> = text.split(',').map(|part| part.trim().to_owned()).collect();
        let is_wrong = |part: &String| {
            part.is_empty() || part.strip_prefix('#').is_some_and(|number| number.parse::<u32>().is_err())
        };
        if asked.iter().any(is_wrong) {
            return Err("each, merge, or volumes by name, or by number as #0, separated by commas".to_owned());
        }
        Ok(Self { asked })
    }
}

/// Lists the volumes of a trace that were chosen, as far as it was read.
#[derive(Clone, Debug)]
pub(crate) struct ChosenVolumes {
    asked: Arc<[String]>,
    /// Tells which parts of what was asked for are in the name of a volume.
    found: Vec<bool>,
    /// Tells what was decided about the first volumes.
    places: Vec<VolumePlace>,
    /// Lists the chosen ones, by name and number.
    chosen: Vec<(String, u32)>,
    /// Keeps a few names of the trace's volumes, for messages.
    some_names: Vec<String>,
    names: Vec<String>,
}

/// Tells what was decided about a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VolumePlace {
    Undecided,
    LeftOut,
    /// Gives its number among those that were chosen.
    Chosen(u32),
}

/// Bounds the volumes that are remembered: a reader numbers at most so many. Others are decided about anew each time.
const REMEMBERED: u32 = 1 << 20;
/// Limits the names that a message lists.
const FEW_NAMES: usize = 8;

impl ChosenVolumes {
    pub(crate) fn new(choice: &VolumeChoice) -> Self {
        Self {
            asked: Arc::clone(&choice.asked),
            found: vec![false; choice.asked.len()],
            places: Vec::new(),
            chosen: Vec::new(),
            some_names: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Takes in the names of the trace's volumes, as far as they are known.
    pub(crate) fn learn(&mut self, names: &[String]) {
        let known = self.names.len();
        self.names.extend_from_slice(names.get(known..).unwrap_or_default());
        // Those without a request are volumes of the trace as well.
        (known..self.names.len()).for_each(|volume| _ = self.place(volume as u32));
    }

    /// Returns a volume's number among those that were chosen, if it was: in the order in which they are known.
    #[inline]
    pub(crate) fn place(&mut self, volume: u32) -> Option<u32> {
        match self.places.get(volume as usize) {
            Some(VolumePlace::Chosen(place)) => Some(*place),
            Some(VolumePlace::LeftOut) => None,
            Some(VolumePlace::Undecided) | None => self.decide(volume),
        }
    }

    /// Decides about a volume.
    #[cold]
    fn decide(&mut self, volume: u32) -> Option<u32> {
        // It may have been decided before, and not be remembered.
        if volume >= REMEMBERED
            && let Some(place) = self.chosen.iter().position(|(_, chosen)| *chosen == volume)
        {
            return Some(place as u32);
        }
        let name = self.names.get(volume as usize).cloned().unwrap_or_else(|| volume.to_string());
        if self.some_names.len() <= FEW_NAMES && !self.some_names.contains(&name) {
            self.some_names.push(name.clone());
        }
        let parts: Vec<&str> = name.split(',').map(str::trim).collect();
        let mut is_chosen = false;
        for at in 0..self.asked.len() {
            let is_name = self.asked[at..].iter().take(parts.len()).eq(parts.iter());
            if is_name || self.asked[at].strip_prefix('#').is_some_and(|number| number.parse() == Ok(volume)) {
                is_chosen = true;
                self.found[at..at + if is_name { parts.len() } else { 1 }].fill(true);
            }
        }
        let place = is_chosen.then_some(self.chosen.len() as u32);
        if is_chosen {
            self.chosen.push((name, volume));
        }
        if volume < REMEMBERED {
            let known = self.places.len().max(volume as usize + 1);
            self.places.resize(known, VolumePlace::Undecided);
            self.places[volume as usize] = place.map_or(VolumePlace::LeftOut, VolumePlace::Chosen);
        }
        place
    }

    /// Returns what was chosen, as results have it.
    pub(crate) fn describe(&self) -> String {
        let chosen: Vec<_> = self.chosen.iter().map(|(name, volume)| format!("{name} (#{volume})")).collect();
        chosen.join(", ")
    }

    /// Returns what was asked for and is no volume of the trace, with the names that it has.
    pub(crate) fn missing(&self) -> Option<String> {
        let missing: Vec<&str> =
            self.asked.iter().zip(&self.found).filter(|(_, found)| !**found).map(|(part, _)| part.as_str()).collect();
        if missing.is_empty() {
            return None;
        }
        let more = if self.some_names.len() > FEW_NAMES { ", ..." } else { "" };
        let names = &self.some_names[..self.some_names.len().min(FEW_NAMES)];
        Some(format!(
            "no volume of the trace is called {}; it has {}{more} (#0 is the first)",
            missing.join(" or "),
            names.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_with_large_numbers_take_no_room_and_no_time() {
        let mut volumes = ChosenVolumes::new(&"4294967295,#3000000000".parse().expect("a choice"));
        let asked = [u32::MAX, 0, 3_000_000_000, u32::MAX - 1, u32::MAX];
        assert_eq!(asked.map(|volume| volumes.place(volume)), [Some(0), None, Some(1), None, Some(0)]);
        assert!(volumes.places.len() <= 1 && volumes.missing().is_none());
    }

    fn chosen(asked: &str, names: &[&str]) -> (Vec<Option<u32>>, String, Option<String>) {
        let mut volumes = ChosenVolumes::new(&asked.parse().expect("a choice"));
        volumes.learn(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let places = (0..3).map(|volume| volumes.place(volume)).collect();
        (places, volumes.describe(), volumes.missing())
    }

    #[test]
    fn names_choose_and_numbers_after_a_sign() {
        assert_eq!(chosen("0", &["5", "0", "7"]).0, [None, Some(0), None]);
        assert_eq!(chosen("#0", &["5", "0", "7"]).0, [Some(0), None, None]);
        assert_eq!(chosen("7,#0", &["5", "0", "7"]), (vec![Some(0), None, Some(1)], "5 (#0), 7 (#2)".into(), None));
        // Where the trace has no names the number is one.
        assert_eq!(chosen("1", &[]).0, [None, Some(0), None]);
        // A name with a comma, alone and among others.
        assert_eq!(chosen("8,0", &["8,16", "8,0", "8"]).0, [None, Some(0), Some(1)]);
        assert_eq!(chosen("8,16,8,0", &["8,0", "253,1", "8,16"]).0, [Some(0), None, Some(1)]);
        assert_eq!(chosen("hm_1", &["hm_0", "hm_1", "hm_10"]).0, [None, Some(0), None]);
    }

    #[test]
    fn what_is_no_volume_is_named_beside_those_that_are() {
        let (places, _, missing) = chosen("9,5", &["5", "0", "7"]);
        assert_eq!(places, [Some(0), None, None]);
        assert_eq!(missing.unwrap(), "no volume of the trace is called 9; it has 5, 0, 7 (#0 is the first)");
        for wrong in ["", "a,", "#", "#x", "#-1"] {
            assert!(wrong.parse::<VolumeChoice>().unwrap_err().contains("by number as #0"), "{wrong}");
        }
    }
}

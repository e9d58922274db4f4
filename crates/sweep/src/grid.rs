//! Points of a grid: every value of a key with every value of the others.

/// Keys of which one experiment takes all values, so that runs with each of them share a pass over the trace.
const SHARED: [&str; 3] = ["policy", "cache", "scheduler"];
/// Points of a grid at most, those that share a pass counted once.
const MOST: usize = 1_000_000;

/// A key and its values.
#[derive(Clone, Debug)]
pub(crate) struct GridAxis {
    pub(crate) key: &'static str,
    /// Each as it is given to the settings.
    pub(crate) values: Vec<Vec<String>>,
}

/// A block of keys with values.
#[derive(Clone, Debug)]
pub(crate) struct KeyGrid {
    /// Holds the keys that are alike at all points, with their values.
    shared: Vec<(&'static str, Vec<String>)>,
    axes: Vec<GridAxis>,
}

/// Values of all keys of a grid.
pub(crate) struct GridPoint<'a> {
    pub(crate) given: Vec<(&'static str, &'a [String])>,
}

impl KeyGrid {
    /// The grid of these keys, in whose points the last varies first.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn new(axes: Vec<GridAxis>) -> Result<Self, String> {
        // Values of these keys share one pass over the trace, so they are lists within a point.
        let (shared, axes): (Vec<_>, Vec<_>) = axes.into_iter().partition(|axis| SHARED.contains(&axis.key));
        let count = axes.iter().try_fold(1_usize, |all, axis| all.checked_mul(axis.values.len()));
        if count.is_none_or(|count| count > MOST) {
            return Err(format!("the grid has more than {MOST} points, those of policy and cache not counted"));
        }
        let shared = shared.into_iter().map(|axis| (axis.key, axis.values.into_iter().flatten().collect()));
        Ok(Self { shared: shared.collect(), axes })
    }

    /// The keys whose values make points.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.axes.iter().map(|axis| axis.key)
    }

    /// All points, in order.
    pub(crate) fn points(&self) -> impl Iterator<Item = GridPoint<'_>> {
        let count: usize = self.axes.iter().map(|axis| axis.values.len()).product();
        (0..count).map(|number| {
            let mut left = number;
            let mut given: Vec<_> = Vec::new();
            for axis in self.axes.iter().rev() {
                let value = &axis.values[left % axis.values.len()];
                left /= axis.values.len();
                given.push((axis.key, value.as_slice()));
            }
            given.reverse();
            given.extend(self.shared.iter().map(|(key, values)| (*key, values.as_slice())));
            GridPoint { given }
        })
    }
}

impl GridPoint<'_> {
    /// Returns the keys and values that tell the point from others.
    pub(crate) fn named(&self) -> Vec<(&'static str, String)> {
        let own = self.given.iter().filter(|(key, _)| !SHARED.contains(key));
        own.map(|(key, values)| (*key, values.join(","))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(key: &'static str, values: &[&str]) -> GridAxis {
        GridAxis { key, values: values.iter().map(|value| vec![(*value).to_owned()]).collect() }
    }

    #[test]
    fn the_last_key_varies_first_and_what_shares_a_pass_stays_together() {
        let grid = KeyGrid::new(vec![
            axis("policy", &["lru", "fab"]),
            axis("page", &["4KiB", "8KiB"]),
            axis("speed", &["1", "2", "4"]),
        ]);
        let grid = grid.unwrap();
        let points: Vec<_> = grid.points().map(|point| point.named()).collect();
        let speeds: Vec<_> = points.iter().map(|point| format!("{} {}", point[0].1, point[1].1)).collect();
        assert_eq!(speeds, ["4KiB 1", "4KiB 2", "4KiB 4", "8KiB 1", "8KiB 2", "8KiB 4"]);
        assert_eq!(grid.points().next().unwrap().given.last().unwrap().1, ["lru", "fab"]);
        let many: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(KeyGrid::new(vec![axis("speed", &many), axis("skip", &many)]).is_err());
        assert_eq!(KeyGrid::new(vec![axis("policy", &["lru"])]).unwrap().points().count(), 1);
    }
}

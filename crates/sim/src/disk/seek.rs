//! Computes the time of the arm's movement from the distance in cylinders (specs §3).

use destage_plan::Nanos;

use super::profile::{DiskError, LONGEST};

/// The time of a seek by its distance. No distance takes no time, whatever the curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeekCurve {
    /// Lee's curve through three points, `single + a·√(x−1) + b·(x−1)`: the seek over one cylinder,
    /// over a third of the stroke and over all of it. On average a seek between uniformly chosen
    /// places covers a third of the stroke.
    ThreePoint {
        /// Over one cylinder.
        single: Nanos,
        /// Over a third of the cylinders.
        average: Nanos,
        /// Over all cylinders.
        full: Nanos,
    },
    /// Measured points (distance in cylinders, time) by ascending distance, the first at
    /// distance 1. Between two points the time is interpolated, behind the last extrapolated, both
    /// linearly and rounded down to a nanosecond, as `DiskSim` does with extracted curves. A single
    /// point holds for every distance.
    Table(Vec<(u32, Nanos)>),
    /// Every seek takes as long.
    Constant(Nanos),
}

impl SeekCurve {
    /// The coefficients of the three-point curve in nanoseconds: a of √(x−1) and b of (x−1). None
    /// for other curves.
    pub fn coefficients(&self, cylinders: u32) -> Option<(f64, f64)> {
        let Self::ThreePoint { single, average, full } = self else { return None };
        let (single, average, full) = (single.0 as f64, average.0 as f64, full.0 as f64);
        let cylinders = f64::from(cylinders);
        let a = (-10.0 * single + 15.0 * average - 5.0 * full) / (3.0 * cylinders.sqrt());
        let b = (7.0 * single - 15.0 * average + 8.0 * full) / (3.0 * cylinders);
        Some((a, b))
    }

    /// The times for every distance from 0 to `cylinders` itself, in nanoseconds. No arm travels
    /// the last one; so there is a seek over one cylinder, which skews follow from, on every disk.
    ///
    /// # Errors
    /// A curve that is not defined, falls where it must rise, or has a time below 1 ns or above a
    /// second.
    pub(super) fn table(&self, cylinders: u32) -> Result<Vec<u32>, DiskError> {
        let mut times = Vec::with_capacity(cylinders as usize + 1);
        times.push(0);
        match self {
            Self::ThreePoint { single, average, full } => {
                if !(single <= average && average <= full) {
                    return Err(DiskError::SeekOrder { single: *single, average: *average, full: *full });
                }
                in_range("seek.single", *single)?;
                in_range("seek.full", *full)?;
                let (a, b) = self.coefficients(cylinders).unwrap_or_default();
                let mut last = 0;
                for distance in 1..=cylinders {
                    let beyond = f64::from(distance - 1);
                    // Only + × ÷ √ and rounding: the same on every machine.
                    let time = (single.0 as f64 + a * beyond.sqrt() + b * beyond).round();
                    if time < f64::from(last) {
                        return Err(DiskError::SeekFalls { distance });
                    }
                    in_range("seek", Nanos(time as u64))?;
                    last = time as u32;
                    times.push(last);
                }
            }
            Self::Table(points) => {
                let &(first, time) = points.first().ok_or(DiskError::SeekPoints { place: 0 })?;
                if first != 1 {
                    return Err(DiskError::SeekPoints { place: 0 });
                }
                in_range("seek.table", time)?;
                for (i, pair) in points.windows(2).enumerate() {
                    if pair[1].0 <= pair[0].0 {
                        return Err(DiskError::SeekPoints { place: i + 1 });
                    }
                    in_range("seek.table", pair[1].1)?;
                }
                let mut upper = 1;
                for distance in 1..=cylinders {
                    while upper + 1 < points.len() && points[upper].0 < distance {
                        upper += 1;
                    }
                    let (near, start) = points[upper - 1];
                    let (far, end) = points.get(upper).copied().unwrap_or((near + 1, start));
                    let slope = (i128::from(end.0) - i128::from(start.0)) * i128::from(distance - near);
                    let time = i128::from(start.0) + slope.div_euclid(i128::from(far) - i128::from(near));
                    // A steep end of the table may lead below zero or out of all bounds.
                    let time = u64::try_from(time).map_err(|_| DiskError::SeekFalls { distance })?;
                    in_range("seek.table, extrapolated,", Nanos(time))?;
                    times.push(time as u32);
                }
            }
            Self::Constant(time) => {
                in_range("seek.constant", *time)?;
                times.resize(cylinders as usize + 1, time.0 as u32);
            }
        }
        Ok(times)
    }
}

fn in_range(key: &'static str, time: Nanos) -> Result<(), DiskError> {
    DiskError::check(key, time.0, 1, LONGEST.0)
}

//! A curve of hits as `destage trace mrc --json` prints it, with names, units and meanings.

use super::{CurveScope, PassFindings, SampledCurve};
use crate::measure::{InputResult, ParamValue, RecordedSetting, ResultVersion, record};

record! {
    /// The hits of a policy at a size.
    pub struct PointResult {
        cache_bytes: u64 ["B"] "size of the buffer, in data held",
        hit_ratio: Option<f64> ["1"] "hits / page accesses; null without accesses",
        half_width: f64 ["1"] "the hit ratio's interval of 95 % reaches so far to both sides; 0 where it is exact",
        samples: u32 ["1"] "disjoint samples that were simulated, beside all of them together; 1 where all pages were",
        miniature_bytes: u64 ["B"] "size of the buffer for each of them",
        share: f64 ["1"] "of all pages (of a policy of blocks: of all blocks), in all samples together",
    }
}

record! {
    /// The hits of a policy at several sizes.
    pub struct PolicyCurveResult {
        policy: String ["-"] "the policy, with its layers",
        params: Vec<ParamValue> ["-"] "its parameters in force" = ParamValue,
        points: Vec<PointResult> ["-"] "its hits at each size, in ascending order" = PointResult,
    }
}

record! {
    /// The curves of a trace.
    pub struct CurveResult {
        input: InputResult ["-"] "what came in; characteristics and sizes are null" = InputResult,
        page_bytes: u64 ["B"] "page size",
        pages_per_block: u32 ["1"] "pages in a logical block",
        settings: Vec<RecordedSetting> ["-"] "settings in force that are not named elsewhere" = RecordedSetting,
        warmup_requests: u64 ["1"] "requests that fill the buffer first and do not count",
        accesses: u64 ["1"] "page accesses that count: read_pages + write_pages",
        read_pages: u64 ["1"] "page accesses of read requests",
        write_pages: u64 ["1"] "page accesses of write requests",
        footprint_bytes: u64 ["B"] "all different pages that are read or written, in a warm-up too",
        footprint_written_bytes: u64 ["B"] "those of them that are written",
        knee_bytes: Option<u64> ["B"] "the size at which LRU's curve of hits lies highest above the line from nothing to the footprint; null where nothing hits",
        knee_hit_ratio: Option<f64> ["1"] "of LRU at that size",
        full_bytes: u64 ["B"] "the least size with which LRU has all hits that can be",
        full_hit_ratio: Option<f64> ["1"] "of LRU at that size; null without accesses",
        policies: Vec<PolicyCurveResult> ["-"] "the curves" = PolicyCurveResult,
        version: ResultVersion => "the versions",
    }
}

impl CurveResult {
    /// Combines the findings of a pass with curves of policies.
    pub fn new(scope: &CurveScope, found: &PassFindings, policies: Vec<PolicyCurveResult>) -> Self {
        let page_bytes = scope.replay.geometry.page_bytes();
        let (accesses, knee) = (found.lru.accesses(), found.knee());
        Self {
            input: found.input.clone(),
            page_bytes,
            pages_per_block: scope.replay.geometry.pages_per_block(),
            settings: RecordedSetting::all(&scope.replay.settings),
            warmup_requests: found.warmup_requests,
            accesses: accesses.all(),
            read_pages: accesses.reads,
            write_pages: accesses.writes,
            footprint_bytes: found.footprint.bytes(),
            footprint_written_bytes: found.footprint.written_pages * page_bytes,
            knee_bytes: knee.map(|knee| knee * page_bytes),
            knee_hit_ratio: knee.and_then(|knee| found.lru.hit_ratio(knee)),
            full_bytes: found.lru.full() * page_bytes,
            full_hit_ratio: found.lru.hit_ratio(u64::MAX),
            policies,
            version: ResultVersion::current(),
        }
    }
}

impl PassFindings {
    /// The exact curve of LRU at these sizes in bytes.
    pub fn lru_curve(&self, sizes: &[u64]) -> PolicyCurveResult {
        let page = self.footprint.page_bytes;
        let point = |&cache_bytes: &u64| PointResult {
            cache_bytes,
            hit_ratio: self.lru.hit_ratio(cache_bytes / page),
            half_width: 0.0,
            samples: 1,
            miniature_bytes: cache_bytes,
            share: 1.0,
        };
        PolicyCurveResult {
            policy: "lru".to_owned(),
            params: vec![ParamValue { name: "reads".into(), value: "cache".to_owned() }],
            points: sizes.iter().map(point).collect(),
        }
    }
}

impl SampledCurve {
    /// As a result, of pages of so many bytes.
    pub fn result(self, page_bytes: u64) -> PolicyCurveResult {
        let points = self.points.iter().map(|point| PointResult {
            cache_bytes: point.pages * page_bytes,
            hit_ratio: point.hit_ratio,
            half_width: point.half_width,
            samples: point.samples,
            miniature_bytes: point.miniature_pages * page_bytes,
            share: point.share,
        });
        PolicyCurveResult { policy: self.policy.name, params: self.params, points: points.collect() }
    }
}

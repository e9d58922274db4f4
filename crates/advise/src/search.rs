//! Searches for the best policy, and the least size that does as well as the largest.
//!
//! Many policies run on a short stretch of the trace, some on all of it at one size, and few at several. The search
//! simulates nothing itself and knows nothing of traces: a [`RunSupplier`] brings its runs. Its decisions depend on the
//! costs alone, so the same costs give the same advice.

/// The stretch of the first round: one part in so many of the requests, unless that is too few of them.
const STRETCH: u64 = 10;
/// Requests that a stretch has at least, if there are so many.
const SHORTEST: u64 = 5_000;
/// A stretch of all but so little of the requests is all of them: the warm-up that it takes would be more.
const NEARLY_ALL: u64 = 2;
/// Policies that the stretch leaves, and one size over all requests.
const LEFT: [usize; 2] = [18, 4];
/// Bounds, as a share, how much more may be paid for what counts as good as the best.
pub const AS_GOOD: f64 = 0.01;

/// Selects the requests that are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchedRequests {
    /// All of them.
    Whole,
    /// So many from one on, which begin with a warm-up.
    Stretch {
        /// Requests before it.
        first: u64,
        /// Requests of it.
        requests: u64,
    },
}

/// Brings the runs that a search asks for.
pub trait RunSupplier {
    /// Is a run.
    type Run;
    /// Says why there is none.
    type Error;

    /// Simulates each policy at each size, given by indices into the sizes: policies in the outer loop. With `bare` the last
    /// run is that of what holds nothing.
    ///
    /// # Errors
    /// Where that cannot be done.
    fn run(
        &mut self,
        part: SearchedRequests,
        policies: &[String],
        sizes: &[usize],
        bare: Option<&str>,
    ) -> Result<Vec<Self::Run>, Self::Error>;

    /// Returns what a run costs; none if that is no result.
    fn cost(&self, run: &Self::Run) -> Option<f64>;

    /// Returns the kind of a policy: what is true of one kind over a stretch, by chance, need not be of another.
    fn kind(&self, policy: &str) -> usize;

    /// Returns how simple a policy is: of several that cost as little, the one with the least is chosen.
    fn complexity(&self, policy: &str) -> PolicyComplexity;

    /// Returns true if a run over a stretch says anything of the policy: nothing does where nothing had to leave.
    fn tells(&self, run: &Self::Run) -> bool;
}

/// Orders policies from simple to complex: plain before layered, older before newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyComplexity {
    /// Layers around the policy.
    pub layers: usize,
    /// Parameters that are not at their defaults.
    pub changes: usize,
    /// Gives the year in which it was published.
    pub year: u16,
    /// Holds the policy's place among those of its year.
    pub place: usize,
}

/// A run over all requests.
#[derive(Clone, Debug)]
pub struct TriedRun<R> {
    /// The policy, with layers.
    pub policy: String,
    /// Gives the index of the size; none of what holds nothing.
    pub size: Option<usize>,
    /// Holds the cost; none if the run is no result.
    pub cost: Option<f64>,
    /// The run.
    pub run: R,
}

/// Holds the result of a search.
#[derive(Clone, Debug)]
pub struct SearchOutcome<R> {
    /// Every run over all requests.
    pub tried: Vec<TriedRun<R>>,
    /// Gives the index of the choice: of all that cost as little as any, what holds nothing, or the smallest size and there the simplest
    /// policy.
    pub best: usize,
    /// Gives the index of the best other policy at that size, or of what holds nothing if that is better; if that is chosen, of the best
    /// that holds something.
    pub runner_up: Option<usize>,
    /// Gives the index of the simplest policy at that size, or at any if what holds nothing is chosen.
    pub simplest: Option<usize>,
    /// The costs of the two over each half of the requests.
    pub halves: Vec<[Option<f64>; 2]>,
    /// Runs of each round, and the share of the requests in it.
    pub effort: Vec<(usize, f64)>,
}

/// Why nothing was found.
#[derive(Debug)]
pub enum SearchError<E> {
    /// No run of a part was a result.
    NoResult,
    /// The bench's.
    Bench(E),
}

impl<E> From<E> for SearchError<E> {
    fn from(error: E) -> Self {
        Self::Bench(error)
    }
}

/// Describes the policies, sizes and requests of a search.
#[derive(Clone, Debug)]
pub struct SearchSpace {
    /// Policies, each in every layer: what is bad alone can be the best within one.
    pub policies: Vec<String>,
    /// Holds what holds nothing and has no size, if that can be simulated.
    pub bare: Option<String>,
    /// Counts the sizes, in ascending order; at least one.
    pub sizes: usize,
    /// Counts the requests.
    pub requests: u64,
}

/// A search at work.
struct AdviceSearch<'a, B: RunSupplier> {
    bench: &'a mut B,
    requests: u64,
    /// Keeps what holds nothing, until it was simulated over all requests.
    bare: Option<String>,
    tried: Vec<TriedRun<B::Run>>,
    effort: Vec<(usize, f64)>,
}

/// Looks for the best.
///
/// # Errors
/// Where the bench fails, or no run of a round is a result.
pub fn search<B: RunSupplier>(
    bench: &mut B,
    space: &SearchSpace,
) -> Result<SearchOutcome<B::Run>, SearchError<B::Error>> {
    let SearchSpace { requests, bare, .. } = space;
    let mut search =
        AdviceSearch { bench, requests: *requests, bare: bare.clone(), tried: Vec::new(), effort: Vec::new() };
    let mut policies = space.policies.clone();
    let last = space.sizes - 1;
    let thirds = distinct([last / 3, last * 2 / 3, last]);
    if let Some(stretch) = stretch(space.requests)
        // With few policies a round over a stretch costs more than it saves.
        && policies.len() > LEFT[0]
    {
        policies = search.leave(stretch, &policies, &distinct([last * 2 / 3, last]), LEFT[0])?;
    }
    // Over a stretch, rare events are a matter of chance, so the best are chosen over all requests. The largest size at
    // which pages have to leave shows most of a policy.
    for &size in thirds.iter().rev() {
        search.whole(&policies, &[size])?;
        if search.tells(size) {
            policies = search.best_at(size, LEFT[1])?;
            break;
        }
    }
    let rest: Vec<usize> = thirds.iter().copied().filter(|&size| search.at(size).next().is_none()).collect();
    if !rest.is_empty() {
        search.whole(&policies, &rest)?;
    }
    while let Some(size) = search.smallest()? {
        // Policies that were not compared at this size may be better there than where they were.
        let known = |policy: &String| search.at(size).any(|tried| tried.policy == *policy);
        let others: Vec<_> = policies.iter().filter(|policy| !known(policy)).cloned().collect();
        if others.is_empty() {
            break;
        }
        search.whole(&others, &[size])?;
    }
    let best = search.choice(|_| true).ok_or(SearchError::NoResult)?;
    let runner_up = search.runner_up(best);
    let simplest = search.simplest(best);
    let halves = match runner_up {
        Some(other) if space.requests >= 2 => search.halves(best, other)?,
        _ => Vec::new(),
    };
    let AdviceSearch { tried, effort, .. } = search;
    Ok(SearchOutcome { tried, best, runner_up, simplest, halves, effort })
}

/// The middle of what is not empty.
fn middle(of: std::ops::Range<usize>) -> Option<usize> {
    (!of.is_empty()).then(|| of.start + (of.end - of.start) / 2)
}

fn distinct(ascending: impl Into<Vec<usize>>) -> Vec<usize> {
    let mut all = ascending.into();
    all.dedup();
    all
}

/// The stretch, in the middle; none where it would be nearly all.
fn stretch(requests: u64) -> Option<SearchedRequests> {
    // The middle of the trace stands for it: its ends may be a start-up and a shutdown.
    let length = (requests / STRETCH).max(SHORTEST);
    (length < requests / NEARLY_ALL)
        .then(|| SearchedRequests::Stretch { first: (requests - length) / 2, requests: length })
}

impl<B: RunSupplier> AdviceSearch<'_, B> {
    fn run(
        &mut self,
        part: SearchedRequests,
        policies: &[String],
        sizes: &[usize],
        bare: Option<&str>,
    ) -> Result<Vec<B::Run>, B::Error> {
        let runs = self.bench.run(part, policies, sizes, bare)?;
        let share = match part {
            SearchedRequests::Whole => 1.0,
            SearchedRequests::Stretch { requests, .. } => requests as f64 / self.requests.max(1) as f64,
        };
        self.effort.push((runs.len(), share));
        Ok(runs)
    }

    /// Gives the costs of two that were tried over each half of the requests.
    fn halves(&mut self, best: usize, other: usize) -> Result<Vec<[Option<f64>; 2]>, B::Error> {
        let half = self.requests / 2;
        let pair = [best, other].map(|index| (self.tried[index].policy.clone(), self.tried[index].size));
        let sized: Vec<String> =
            pair.iter().filter(|(_, size)| size.is_some()).map(|(policy, _)| policy.clone()).collect();
        let bare = pair.iter().find(|(_, size)| size.is_none()).map(|(policy, _)| policy.clone());
        let size: Vec<usize> = pair.iter().find_map(|&(_, size)| size).into_iter().collect();
        let mut halves = Vec::new();
        for (first, requests) in [(0, half), (half, self.requests - half)] {
            let runs = self.run(SearchedRequests::Stretch { first, requests }, &sized, &size, bare.as_deref())?;
            let mut costs = [0, 1].map(|index| runs.get(index).and_then(|run| self.bench.cost(run)));
            // The run of what holds nothing comes last.
            if pair[0].1.is_none() {
                costs.reverse();
            }
            halves.push(costs);
        }
        Ok(halves)
    }

    /// The policies that are best of their kinds over a part at any of the sizes, so many of them.
    fn leave(
        &mut self,
        part: SearchedRequests,
        policies: &[String],
        sizes: &[usize],
        left: usize,
    ) -> Result<Vec<String>, SearchError<B::Error>> {
        let runs = self.run(part, policies, sizes, None)?;
        // A run in which nothing had to leave ranks policies by chance.
        let costs: Vec<_> = runs.iter().map(|run| self.bench.cost(run).filter(|_| self.bench.tells(run))).collect();
        let costs: Vec<&[Option<f64>]> = costs.chunks(sizes.len()).collect();
        let kinds: Vec<usize> = policies.iter().map(|policy| self.bench.kind(policy)).collect();
        let best_first = |(size, kind): (usize, usize)| {
            let of_kind = costs.iter().enumerate().filter(|&(i, _)| kinds[i] == kind);
            // Ties are broken by the order of the policies, so the same costs give the same advice.
            let mut order: Vec<_> = of_kind.filter_map(|(i, costs)| Some((costs[size]?, i))).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            order.into_iter().map(|(_, policy)| policy).collect::<Vec<_>>()
        };
        let each = 0..=kinds.iter().copied().max().unwrap_or(0);
        let large_first = (0..sizes.len()).rev();
        let orders: Vec<_> = large_first.flat_map(|size| each.clone().map(move |kind| (size, kind))).collect();
        let orders: Vec<_> = orders.into_iter().map(best_first).collect();
        let mut chosen: Vec<usize> = Vec::new();
        // The best of each kind at each size, then the second best: policies by page and by block suffer differently
        // from a short stretch.
        for place in 0..policies.len() {
            for order in &orders {
                if let Some(&policy) = order.get(place)
                    && chosen.len() < left
                    && !chosen.contains(&policy)
                {
                    chosen.push(policy);
                }
            }
        }
        // A simpler policy that is as good as the best goes on whatever its place, since it would be advised.
        let at_largest = || costs.iter().enumerate().filter_map(|(i, costs)| Some((i, (*costs.last()?)?)));
        if let Some(least) = at_largest().map(|(_, cost)| cost).min_by(f64::total_cmp) {
            let as_good = at_largest().filter(|&(_, cost)| is_as_good(cost, least)).map(|(i, _)| i);
            let simplest = as_good.min_by_key(|&i| self.bench.complexity(&policies[i]));
            chosen.extend(simplest.filter(|simplest| !chosen.contains(simplest)));
        }
        if chosen.is_empty() {
            if runs.iter().all(|run| self.bench.cost(run).is_none()) && !self.is_result_without(part)? {
                return Err(SearchError::NoResult);
            }
            // Nothing tells the policies apart.
            chosen.extend(0..left);
        }
        chosen.sort_unstable();
        Ok(chosen.into_iter().map(|policy| policies[policy].clone()).collect())
    }

    /// Returns true if what holds nothing has a result over a part.
    fn is_result_without(&mut self, part: SearchedRequests) -> Result<bool, B::Error> {
        let Some(bare) = self.bare.clone() else { return Ok(false) };
        let runs = self.run(part, &[], &[], Some(&bare))?;
        Ok(runs.iter().any(|run| self.bench.cost(run).is_some()))
    }

    /// Tries over all requests, the first time with what holds nothing, since the trace is read once for all.
    fn whole(&mut self, policies: &[String], sizes: &[usize]) -> Result<(), B::Error> {
        // What holds nothing goes along with the first pass, since the trace is read once for all runs.
        let bare = self.bare.take();
        let runs = self.run(SearchedRequests::Whole, policies, sizes, bare.as_deref())?;
        let pairs = policies.iter().flat_map(|policy| sizes.iter().map(move |&size| (policy.clone(), Some(size))));
        for ((policy, size), run) in pairs.chain(bare.map(|bare| (bare, None))).zip(runs) {
            let cost = self.bench.cost(&run);
            self.tried.push(TriedRun { policy, size, cost, run });
        }
        Ok(())
    }

    /// Returns the runs over all requests at a size.
    fn at(&self, size: usize) -> impl Iterator<Item = &TriedRun<B::Run>> {
        self.tried.iter().filter(move |tried| tried.size == Some(size))
    }

    /// Returns true if a run at this size says anything of its policy.
    fn tells(&self, size: usize) -> bool {
        self.at(size).any(|tried| self.bench.tells(&tried.run))
    }

    /// Returns the policies that cost least of those that were tried at a size, so many of them, and the simplest of those that
    /// cost as little as the best. Where there is no result but without them, all.
    fn best_at(&self, size: usize, left: usize) -> Result<Vec<String>, SearchError<B::Error>> {
        let costs = self.at(size).filter_map(|tried| Some((tried.cost?, &tried.policy)));
        let mut costs: Vec<_> = costs.collect();
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(&(least, _)) = costs.first() else {
            // What holds nothing may still be a result, and the policies get their chance at other sizes.
            return if self.tried.iter().any(|tried| tried.cost.is_some()) {
                Ok(self.at(size).take(left).map(|tried| tried.policy.clone()).collect())
            } else {
                Err(SearchError::NoResult)
            };
        };
        let as_good = costs.iter().take_while(|&&(cost, _)| is_as_good(cost, least)).map(|&(_, policy)| policy);
        let simplest = as_good.min_by_key(|policy| self.bench.complexity(policy));
        let mut best: Vec<&String> = costs.iter().take(left).map(|&(_, policy)| policy).collect();
        best.extend(simplest.filter(|simplest| !best.contains(simplest)));
        Ok(best.into_iter().cloned().collect())
    }

    /// Returns the index of what costs least of those that were tried and are such; of several that of the smallest size, and of
    /// these the first.
    fn least(&self, such: impl Fn(&TriedRun<B::Run>) -> bool) -> Option<usize> {
        let costs = self.tried.iter().enumerate().filter(|(_, tried)| such(tried));
        let costs = costs.filter_map(|(index, tried)| Some((tried.cost?, tried.size, index)));
        costs.min_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2)))).map(|(.., index)| index)
    }

    /// Returns the index of the smallest, and there the simplest, of those that were tried, are such and cost as little as the
    /// best of these.
    fn choice(&self, such: impl Fn(&TriedRun<B::Run>) -> bool) -> Option<usize> {
        let least = self.tried[self.least(&such)?].cost?;
        let all = self.tried.iter().enumerate().filter(|(_, tried)| such(tried));
        let as_good = all.filter(|(_, tried)| tried.cost.is_some_and(|cost| is_as_good(cost, least)));
        let order = |tried: &TriedRun<B::Run>| (tried.size, self.bench.complexity(&tried.policy));
        as_good.min_by_key(|&(index, tried)| (order(tried), index)).map(|(index, _)| index)
    }

    /// Returns the index of what the choice is compared with.
    fn runner_up(&self, best: usize) -> Option<usize> {
        let TriedRun { policy, size, .. } = &self.tried[best];
        if size.is_none() {
            return self.choice(|tried| tried.size.is_some());
        }
        self.least(|tried| (tried.size.is_none() || tried.size == *size) && tried.policy != *policy)
    }

    /// Returns the index of the simplest policy at the size of the choice, or at any where that has none.
    fn simplest(&self, best: usize) -> Option<usize> {
        let size = self.tried[best].size;
        let all = self
            .tried
            .iter()
            .enumerate()
            .filter(|(_, tried)| tried.size.is_some() && (size.is_none() || tried.size == size));
        let with_cost = all.filter(|(_, tried)| tried.cost.is_some());
        with_cost.min_by_key(|&(index, tried)| (self.bench.complexity(&tried.policy), index)).map(|(index, _)| index)
    }

    /// Returns the least size at which something costs as little as the best at any, found by halving the gaps beside it; none
    /// where only what has no size has a result.
    fn smallest(&mut self) -> Result<Option<usize>, B::Error> {
        loop {
            let Some(best) = self.least(|tried| tried.size.is_some()) else { return Ok(None) };
            let (Some(upper), Some(own)) = (self.least_size(best), self.tried[best].size) else { return Ok(None) };
            let tried = || self.tried.iter().filter_map(|tried| tried.size);
            let lower = tried().filter(|&size| size < upper).max();
            let mut sizes = Vec::new();
            // Halving assumes that a larger size is seldom worse; the gap above is tried as well for where it is.
            sizes.extend(middle(lower.map_or(0, |lower| lower + 1)..upper));
            if own == upper {
                // Where a larger size does worse, the best may lie above.
                let above = tried().filter(|&size| size > upper).min();
                sizes.extend(above.and_then(|above| middle(upper + 1..above)));
            }
            if sizes.is_empty() {
                return Ok(Some(upper));
            }
            // A policy that is best at either end is taken for the best between.
            let mut finalists: Vec<String> = Vec::new();
            for size in [upper, lower.unwrap_or(upper)] {
                let best = self.least(|tried| tried.size == Some(size) && !finalists.contains(&tried.policy));
                finalists.extend(best.map(|best| self.tried[best].policy.clone()));
            }
            self.whole(&finalists, &sizes)?;
        }
    }

    /// Returns the least size that was tried at which something costs as little as the best.
    fn least_size(&self, best: usize) -> Option<usize> {
        let least = self.tried[best].cost?;
        let as_good = |tried: &TriedRun<B::Run>| tried.cost.is_some_and(|cost| is_as_good(cost, least));
        self.tried.iter().filter(|tried| as_good(tried)).filter_map(|tried| tried.size).min()
    }
}

/// Returns true if a cost is as good as the least.
fn is_as_good(cost: f64, least: f64) -> bool {
    cost <= least + AS_GOOD * least.abs()
}

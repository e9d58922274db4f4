//! The search for the best policy and the least size that does as well as the largest: many policies on a short stretch
//! of the trace, some on all of it at one size, and few at several.
//!
//! It simulates nothing itself and knows nothing of traces: what it asks for is a [`Bench`]'s to bring, and its decisions
//! depend on the costs alone, so that the same costs give the same advice.

/// The stretch of the first round: one part in so many of the requests, unless that is too few of them.
const STRETCH: u64 = 10;
/// Requests that a stretch has at least, if there are so many.
const SHORTEST: u64 = 5_000;
/// A stretch of all but so little of the requests is all of them: the warm-up that it takes would be more.
const NEARLY_ALL: u64 = 2;
/// Policies that the stretch leaves, and one size over all requests.
const LEFT: [usize; 2] = [18, 4];
/// A size does as well as the largest if it costs no more than this much more.
pub const AS_GOOD: f64 = 0.01;

/// Which requests are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
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

/// What brings runs.
pub trait Bench {
    /// A run.
    type Run;
    /// Why there is none.
    type Error;

    /// Simulates each policy at each size, given by indices into the sizes: policies in the outer loop.
    ///
    /// # Errors
    /// Where that cannot be done.
    fn run(&mut self, part: Part, policies: &[String], sizes: &[usize]) -> Result<Vec<Self::Run>, Self::Error>;

    /// What a run costs; none if that is no result.
    fn cost(&self, run: &Self::Run) -> Option<f64>;

    /// The kind of a policy: what is true of one kind over a stretch, by chance, need not be of another.
    fn kind(&self, policy: &str) -> usize;

    /// Whether a run over a stretch says anything of the policy: nothing does where nothing had to leave.
    fn tells(&self, run: &Self::Run) -> bool;
}

/// A run over all requests.
#[derive(Clone, Debug)]
pub struct Tried<R> {
    /// The policy, with layers.
    pub policy: String,
    /// Index of the size.
    pub size: usize,
    /// What it costs.
    pub cost: Option<f64>,
    /// The run.
    pub run: R,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Outcome<R> {
    /// Every run over all requests.
    pub tried: Vec<Tried<R>>,
    /// Index of the best of them: that of the least size that does as well as any.
    pub best: usize,
    /// Index of what comes next at that size, of another policy.
    pub runner_up: Option<usize>,
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

/// What is searched through.
#[derive(Clone, Debug)]
pub struct Space {
    /// Policies, each in every layer: what is bad alone can be the best within one.
    pub policies: Vec<String>,
    /// How many sizes there are, in ascending order; at least one.
    pub sizes: usize,
    /// How many requests there are.
    pub requests: u64,
}

/// A search at work.
struct Search<'a, B: Bench> {
    bench: &'a mut B,
    requests: u64,
    tried: Vec<Tried<B::Run>>,
    effort: Vec<(usize, f64)>,
}

/// Looks for the best.
///
/// # Errors
/// Where the bench fails, or no run of a round is a result.
pub fn search<B: Bench>(bench: &mut B, space: &Space) -> Result<Outcome<B::Run>, SearchError<B::Error>> {
    let mut search = Search { bench, requests: space.requests, tried: Vec::new(), effort: Vec::new() };
    let mut policies = space.policies.clone();
    let last = space.sizes - 1;
    let thirds = distinct([last / 3, last * 2 / 3, last]);
    if let Some(stretch) = stretch(space.requests)
        && policies.len() > LEFT[0]
    {
        policies = search.leave(stretch, &policies, &distinct([last * 2 / 3, last]), LEFT[0])?;
    }
    // Over a stretch the mean of what is rare is a matter of chance: who is best is seen over all requests, at the largest
    // size at which something has to leave.
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
    let size = search.smallest()?;
    let first = search.least(|tried| tried.size == size).ok_or(SearchError::NoResult)?;
    // Who was not compared at this size.
    let known = |search: &Search<B>, policy: &String| search.at(size).any(|tried| tried.policy == *policy);
    let others: Vec<_> = policies.iter().filter(|policy| !known(&search, policy)).cloned().collect();
    if !others.is_empty() {
        search.whole(&others, &[size])?;
    }
    let best = search.least(|tried| tried.size == size).unwrap_or(first);
    let winner = search.tried[best].policy.clone();
    let runner_up = search.least(|tried| tried.size == size && tried.policy != winner);
    let mut compared = vec![winner];
    compared.extend(runner_up.map(|index| search.tried[index].policy.clone()));
    let mut halves = Vec::new();
    if compared.len() == 2 && space.requests >= 2 {
        let half = space.requests / 2;
        for part in [(0, half), (half, space.requests - half)] {
            let part = Part::Stretch { first: part.0, requests: part.1 };
            let costs = search.costs(part, &compared, &[size])?;
            halves.push([costs[0][0], costs[1][0]]);
        }
    }
    let Search { tried, effort, .. } = search;
    Ok(Outcome { tried, best, runner_up, halves, effort })
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
fn stretch(requests: u64) -> Option<Part> {
    let length = (requests / STRETCH).max(SHORTEST);
    (length < requests / NEARLY_ALL).then(|| Part::Stretch { first: (requests - length) / 2, requests: length })
}

impl<B: Bench> Search<'_, B> {
    fn run(&mut self, part: Part, policies: &[String], sizes: &[usize]) -> Result<Vec<B::Run>, B::Error> {
        let runs = self.bench.run(part, policies, sizes)?;
        let share = match part {
            Part::Whole => 1.0,
            Part::Stretch { requests, .. } => requests as f64 / self.requests.max(1) as f64,
        };
        self.effort.push((runs.len(), share));
        Ok(runs)
    }

    /// What each policy costs at each of the sizes.
    fn costs(&mut self, part: Part, policies: &[String], sizes: &[usize]) -> Result<Vec<Vec<Option<f64>>>, B::Error> {
        let runs = self.run(part, policies, sizes)?;
        let costs: Vec<_> = runs.iter().map(|run| self.bench.cost(run)).collect();
        Ok(costs.chunks(sizes.len()).map(<[_]>::to_vec).collect())
    }

    /// The policies that are best of their kinds over a part at any of the sizes, so many of them.
    fn leave(
        &mut self,
        part: Part,
        policies: &[String],
        sizes: &[usize],
        left: usize,
    ) -> Result<Vec<String>, SearchError<B::Error>> {
        let runs = self.run(part, policies, sizes)?;
        let costs: Vec<_> = runs.iter().map(|run| self.bench.cost(run).filter(|_| self.bench.tells(run))).collect();
        let costs: Vec<&[Option<f64>]> = costs.chunks(sizes.len()).collect();
        let kinds: Vec<usize> = policies.iter().map(|policy| self.bench.kind(policy)).collect();
        let best_first = |(size, kind): (usize, usize)| {
            let of_kind = costs.iter().enumerate().filter(|&(i, _)| kinds[i] == kind);
            let mut order: Vec<_> = of_kind.filter_map(|(i, costs)| Some((costs[size]?, i))).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            order.into_iter().map(|(_, policy)| policy).collect::<Vec<_>>()
        };
        let each = 0..=kinds.iter().copied().max().unwrap_or(0);
        let large_first = (0..sizes.len()).rev();
        let orders: Vec<_> = large_first.flat_map(|size| each.clone().map(move |kind| (size, kind))).collect();
        let orders: Vec<_> = orders.into_iter().map(best_first).collect();
        let mut chosen: Vec<usize> = Vec::new();
        // The best of each kind at each of the sizes, the second best, ...
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
        if chosen.is_empty() {
            if runs.iter().all(|run| self.bench.cost(run).is_none()) {
                return Err(SearchError::NoResult);
            }
            // Nothing tells them apart.
            chosen.extend(0..left);
        }
        chosen.sort_unstable();
        Ok(chosen.into_iter().map(|policy| policies[policy].clone()).collect())
    }

    /// Tries over all requests.
    fn whole(&mut self, policies: &[String], sizes: &[usize]) -> Result<(), B::Error> {
        let runs = self.run(Part::Whole, policies, sizes)?;
        let pairs = policies.iter().flat_map(|policy| sizes.iter().map(move |&size| (policy.clone(), size)));
        for ((policy, size), run) in pairs.zip(runs) {
            let cost = self.bench.cost(&run);
            self.tried.push(Tried { policy, size, cost, run });
        }
        Ok(())
    }

    /// What was tried over all requests at a size.
    fn at(&self, size: usize) -> impl Iterator<Item = &Tried<B::Run>> {
        self.tried.iter().filter(move |tried| tried.size == size)
    }

    /// Whether a run at this size says anything of its policy.
    fn tells(&self, size: usize) -> bool {
        self.at(size).any(|tried| self.bench.tells(&tried.run))
    }

    /// So many policies, of those that were tried at a size, that cost least.
    fn best_at(&self, size: usize, left: usize) -> Result<Vec<String>, SearchError<B::Error>> {
        let costs = self.at(size).filter_map(|tried| Some((tried.cost?, &tried.policy)));
        let mut costs: Vec<_> = costs.collect();
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        if costs.is_empty() {
            return Err(SearchError::NoResult);
        }
        Ok(costs.into_iter().take(left).map(|(_, policy)| policy.clone()).collect())
    }

    /// Index of what costs least of those that were tried and are such; of several that of the smallest size, and of these
    /// the first.
    fn least(&self, such: impl Fn(&Tried<B::Run>) -> bool) -> Option<usize> {
        let costs = self.tried.iter().enumerate().filter(|(_, tried)| such(tried));
        let costs = costs.filter_map(|(index, tried)| Some((tried.cost?, tried.size, index)));
        costs.min_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2)))).map(|(.., index)| index)
    }

    /// The least size at which something costs as little as the best at any, found by halving the gaps beside it.
    fn smallest(&mut self) -> Result<usize, SearchError<B::Error>> {
        loop {
            let best = self.least(|_| true).ok_or(SearchError::NoResult)?;
            let upper = self.least_size(best);
            let tried = || self.tried.iter().map(|tried| tried.size);
            let lower = tried().filter(|&size| size < upper).max();
            let mut sizes = Vec::new();
            sizes.extend(middle(lower.map_or(0, |lower| lower + 1)..upper));
            if self.tried[best].size == upper {
                // Where larger does worse the best may lie above.
                let above = tried().filter(|&size| size > upper).min();
                sizes.extend(above.and_then(|above| middle(upper + 1..above)));
            }
            if sizes.is_empty() {
                return Ok(upper);
            }
            // Who is best at either end is best between.
            let mut finalists: Vec<String> = Vec::new();
            for size in [upper, lower.unwrap_or(upper)] {
                let best = self.least(|tried| tried.size == size && !finalists.contains(&tried.policy));
                finalists.extend(best.map(|best| self.tried[best].policy.clone()));
            }
            self.whole(&finalists, &sizes)?;
        }
    }

    /// The least size that was tried at which something costs as little as the best.
    fn least_size(&self, best: usize) -> usize {
        let best = &self.tried[best];
        let is_enough = |tried: &&Tried<B::Run>| match (tried.cost, best.cost) {
            (Some(cost), Some(least)) => cost <= least + AS_GOOD * least.abs(),
            _ => false,
        };
        self.tried.iter().filter(is_enough).map(|tried| tried.size).min().unwrap_or(best.size)
    }
}

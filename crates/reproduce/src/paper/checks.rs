//! Checks papers' files.

use destage_scenario::{ScenarioError, quantity};

use super::assumption;
use super::{ClaimOver, PaperClaim, PaperFile, PrintedValue, WorkloadEntry};

/// Settings that a paper's file gives elsewhere, or that have no influence on results.
pub(crate) const RESERVED: &[&str] = &[
    "policy",
    "cache",
    "trace",
    "workload",
    "workload-set",
    "format",
    "lenient",
    "json",
    "csv",
    "report",
    "resume",
    "latency-log",
    "per-volume",
    "timing",
    "progress",
    "threads",
    "memory",
];

impl PaperFile {
    /// Checks that everything that a paper names is there, and that its values make sense.
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |message: String| Err(ScenarioError::new(message));
        if !(2..=1000).contains(&self.seeds) {
            return wrong(format!("seeds = {}: between 2 and 1000", self.seeds));
        }
        for key in RESERVED {
            if self.settings.contains_key(*key) {
                return wrong(format!("settings: '{key}' follows from the claims and workloads; leave it out"));
            }
        }
        for (i, policy) in self.policies.iter().enumerate() {
            if self.policies[..i].contains(policy) {
                return wrong(format!("policies: \"{policy}\" is given twice"));
            }
        }
        let used = |workload: &WorkloadEntry| {
            let of_claims = self.claim.iter().flat_map(PaperClaim::workloads);
            let of_figures = self.figure.iter().flat_map(|figure| figure.workload.all());
            let mut all = of_claims.chain(of_figures).chain(self.value.iter().map(|value| &value.workload));
            !self.caches.is_empty() || all.any(|name| workload.stands_for.contains(name))
        };
        for workload in &self.workload {
            if !used(workload) {
                return wrong(format!(
                    "workload \"{}\": neither a claim nor a figure is about what it stands for",
                    workload.name
                ));
            }
            let is_file = !workload.files.is_empty() || workload.trace.is_some();
            if workload.synthetic.is_some() == is_file {
                return wrong(format!("workload \"{}\": give either 'synthetic' or 'files' or 'trace'", workload.name));
            }
            if let Some(key) = RESERVED.iter().find(|key| workload.settings.contains_key(**key)) {
                return wrong(format!("workload \"{}\": settings: '{key}' cannot be one", workload.name));
            }
            if workload.synthetic.is_none() && !workload.set.is_empty() {
                return wrong(format!(
                    "workload \"{}\": 'set' changes a synthetic workload, not a trace",
                    workload.name
                ));
            }
        }
        for example in &self.example {
            example.check()?;
        }
        let mut names = std::collections::BTreeSet::from([""]);
        for variant in &self.variant {
            if !names.insert(variant.name.as_str()) {
                return wrong(format!("variant \"{}\" is given twice, or has no name", variant.name));
            }
            let replaced: Vec<String> = variant.run_as.keys().cloned().collect();
            for policies in [&variant.policies, &replaced] {
                self.known_policies(policies).map_err(|e| e.at(format_args!("variant \"{}\"", variant.name)))?;
            }
            if let Some(key) = RESERVED.iter().find(|key| variant.settings.contains_key(**key)) {
                return wrong(format!("variant \"{}\": settings: '{key}' cannot be one", variant.name));
            }
        }
        let known_variant = |name: &str| {
            if names.contains(name) {
                Ok(())
            } else {
                Err(ScenarioError::new(format_args!("there is no variant \"{name}\"")))
            }
        };
        sizes(&self.caches)?;
        assumption::check(self)?;
        check_figures(self)?;
        self.check_reasons()?;
        for value in &self.value {
            self.check_value(value).and_then(|()| known_variant(&value.at)).map_err(|error| {
                let id = &value.id;
                error.at(format_args!("value {id}"))
            })?;
        }
        for counted in &self.counted {
            let known = || {
                self.known_workloads(std::slice::from_ref(&counted.workload))?;
                known_variant(&counted.at)?;
                counted.check(&self.figures)
            };
            known().map_err(|error| error.at(format_args!("counted \"{}\"", counted.name)))?;
        }
        for claim in &self.claim {
            let variants = [Some(&claim.at), claim.than_at.as_ref(), claim.relative_to.as_ref()];
            let mut variants = variants.into_iter().flatten().chain(&claim.also_at);
            self.check_claim(claim)
                .and_then(|()| variants.try_for_each(|name| known_variant(name)))
                .map_err(|error| error.at(format_args!("claim {}", claim.id)))?;
        }
        Ok(())
    }

    fn known_policies(&self, policies: &[String]) -> Result<(), ScenarioError> {
        match policies.iter().find(|policy| !self.policies.contains(policy)) {
            Some(policy) => Err(ScenarioError::new(format_args!("\"{policy}\" is not among the policies"))),
            None => Ok(()),
        }
    }

    fn known_workloads(&self, names: &[String]) -> Result<(), ScenarioError> {
        match names.iter().find(|name| !self.workload.iter().any(|w| w.stands_for.contains(name))) {
            Some(name) => Err(ScenarioError::new(format_args!("no workload stands for \"{name}\""))),
            None => Ok(()),
        }
    }

    /// Checks that every reason has a name of its own and explains some claim.
    fn check_reasons(&self) -> Result<(), ScenarioError> {
        let wrong = |message: String| Err(ScenarioError::new(message));
        for claim in &self.claim {
            if let Some(why) = claim.why.iter().find(|why| !self.reason.iter().any(|reason| reason.id == **why)) {
                return wrong(format!("claim {}: why: there is no reason \"{why}\"", claim.id));
            }
        }
        for (i, reason) in self.reason.iter().enumerate() {
            let id = &reason.id;
            if self.reason[..i].iter().any(|other| other.id == *id) {
                return wrong(format!("reason \"{id}\" is given twice"));
            }
            if !self.claim.iter().any(|claim| claim.why.contains(id)) {
                return wrong(format!("reason \"{id}\": no claim names it in 'why'"));
            }
        }
        Ok(())
    }

    fn check_value(&self, value: &PrintedValue) -> Result<(), ScenarioError> {
        self.known_policies(std::slice::from_ref(&value.policy))?;
        self.known_workloads(std::slice::from_ref(&value.workload))?;
        sizes(std::slice::from_ref(&value.cache))?;
        if value.metrics.len() != value.published.len() || value.metrics.is_empty() {
            return Err(ScenarioError::new("metrics and published must have as many entries each"));
        }
        Ok(())
    }

    fn check_claim(&self, claim: &PaperClaim) -> Result<(), ScenarioError> {
        let wrong = |message: &str| Err(ScenarioError::new(message));
        self.known_workloads(claim.workload.all())?;
        if let Some(than) = &claim.than_workload {
            self.known_workloads(std::slice::from_ref(than))?;
        }
        self.known_policies(claim.new.all())?;
        self.known_policies(claim.than.all())?;
        if claim.workload.all().is_empty() || claim.new.all().is_empty() {
            return wrong("workload and new name at least one");
        }
        if claim.than.all().len() != claim.new.all().len() {
            return wrong("than names as many policies as new");
        }
        if claim.caches.is_empty() {
            return wrong("caches is empty");
        }
        sizes(&claim.caches)?;
        if let Some(than) = &claim.than_caches {
            sizes(than)?;
            if than.len() != claim.caches.len() {
                return wrong("than-caches has as many sizes as caches");
            }
        }
        if !claim.also_at.is_empty() && (claim.than_at.is_some() || claim.relative_to.is_some()) {
            return wrong(
                "also-at runs both policies under one variant, so it goes with neither than-at nor relative-to",
            );
        }
        let repeated = |(i, name): (usize, &String)| *name == claim.at || claim.also_at[..i].contains(name);
        if claim.also_at.iter().enumerate().any(repeated) {
            return wrong("also-at names variants other than 'at', each once");
        }
        if let Some(caches) = &claim.also_caches {
            if claim.also_at.is_empty() || claim.than_caches.is_some() || caches.is_empty() {
                return wrong("also-caches are some of the sizes for also-at, and do not go with than-caches");
            }
            if let Some(other) = caches.iter().find(|cache| !claim.caches.contains(cache)) {
                return wrong(&format!("also-caches: {other} is not among the caches"));
            }
        }
        let [least, greatest] = claim.claimed;
        if least.abs() > greatest.abs() || least * greatest < 0.0 || !(least + greatest).is_finite() {
            return wrong("claimed is [least, greatest], both of one sign");
        }
        if let Some(alike) = claim.alike
            && (claim.sign() != 0 || !(alike > 0.0 && alike.is_finite()))
        {
            return wrong("alike is for claims of likeness, claimed = [0, 0], and is more than 0");
        }
        if claim.sign() == 0 && claim.over != ClaimOver::Each {
            return wrong("claims of likeness and bounds are about each size, workload and pair: leave 'over' out");
        }
        if let Some(most) = claim.at_most
            && (claim.sign() != 0 || claim.alike.is_some() || !most.is_finite())
        {
            return wrong("at-most is for bounds, claimed = [0, 0], and goes with no alike");
        }
        if claim.seeds.is_some_and(|seeds| !(self.seeds..=1000).contains(&seeds)) {
            return wrong(&format!("seeds: between the paper's {} and 1000", self.seeds));
        }
        if claim.part_of.is_some() && claim.reading_of.is_some() {
            return wrong("part-of is for claims that are counted, hence not for other readings");
        }
        if claim.part_of.as_ref().is_some_and(|whole| self.claim.iter().any(|other| other.id == *whole)) {
            return wrong("part-of names what no claim is called");
        }
        if let Some(main) = &claim.reading_of {
            let main = self.claim.iter().find(|other| other.id == *main);
            if main.is_none_or(|main| main.reading_of.is_some()) {
                return wrong("reading-of names a claim that is no other reading itself");
            }
        }
        Ok(())
    }
}

/// Checks buffer sizes.
fn sizes(caches: &[String]) -> Result<(), ScenarioError> {
    caches.iter().try_for_each(|cache| {
        let checked = quantity::bytes(cache);
        checked.map(|_| ()).map_err(|right| ScenarioError::new(format_args!("caches: '{cache}': {right}")))
    })
}

/// Checks a paper's figures: what they name is there.
fn check_figures(paper: &PaperFile) -> Result<(), ScenarioError> {
    let known = |what: &str, name: &str, all: &[&String]| {
        if all.iter().any(|other| *other == name) {
            return Ok(());
        }
        Err(ScenarioError::new(format_args!("there is no {what} \"{name}\"")))
    };
    let workloads: Vec<_> = paper.workload.iter().flat_map(|workload| &workload.stands_for).collect();
    let policies: Vec<_> = paper.policies.iter().collect();
    let variants: Vec<_> = paper.variant.iter().map(|variant| &variant.name).collect();
    for figure in &paper.figure {
        let of_figure = || -> Result<(), ScenarioError> {
            figure.check()?;
            for name in figure.workload.all() {
                known("workload that stands for", name, &workloads)?;
            }
            for (at, policy, _) in figure.runs() {
                known("policy", policy, &policies)?;
                if !at.is_empty() {
                    known("variant", at, &variants)?;
                }
            }
            Ok(())
        };
        of_figure().map_err(|error| error.at(format_args!("figure {}", figure.place)))?;
    }
    Ok(())
}

//! Works a paper's examples.

use destage_plan::{Element, PageNo, PolicySpec, Request};
use destage_policy::buffer::{
    self, BufferConfig, BufferPolicy, BuiltPolicy, DeviceView, EvictionKind, Evictions, NoVeto, PageAccess,
    PolicyVisitor,
};
use destage_report::ReportRun;
use destage_scenario::sim::{SIM, SimulatedRequests};
use destage_scenario::{DescribedSimulation, ScenarioError, ScenarioSettings, simulation};
use destage_sim::experiment::OpenedInput;
use destage_trace::{TraceError, TraceSource};

use crate::paper::{ArrayExample, BufferExample, ExampleRequest, WorkedExample};
use crate::plan::text_of;
use crate::run::{EvidenceError, RESOURCES};

/// Holds the outcome of an example.
#[derive(Clone, Debug)]
pub struct ExampleFinding<'a> {
    /// The example.
    pub example: &'a WorkedExample,
    /// Lists what is compared.
    pub figures: Vec<ExampleFigure>,
}

/// Something of an example that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleFigure {
    /// Names what it is, if the value does not say.
    pub name: String,
    /// Says what it is in the paper.
    pub expected: String,
    /// Says what it is here.
    pub found: String,
}

impl ExampleFinding<'_> {
    /// Returns true if all is as in the paper.
    pub fn holds(&self) -> bool {
        self.figures.iter().all(|figure| figure.expected == figure.found)
    }

    /// Says in a line what the paper has.
    pub fn expected(&self) -> String {
        line(self.figures.iter().map(|figure| (&figure.name, &figure.expected)))
    }

    /// Says in a line what is found here.
    pub fn found(&self) -> String {
        line(self.figures.iter().map(|figure| (&figure.name, &figure.found)))
    }
}

fn line<'a>(figures: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    figures.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// Works an example.
///
/// # Errors
/// Says what is wrong with its settings or its policy.
pub(crate) fn work(example: &WorkedExample) -> Result<ExampleFinding<'_>, EvidenceError> {
    let requests = example.parsed()?;
    let figures = match (&example.buffer, &example.array) {
        (Some(buffer), _) => vec![evictions(example, buffer, &requests)?],
        (None, Some(array)) => counts(example, array, &requests)?,
        (None, None) => Vec::new(),
    };
    Ok(ExampleFinding { example, figures })
}

/// Has the last element collect, on which some pages are.
struct CollectingDevice<'a>(&'a BufferExample);

impl DeviceView for CollectingDevice<'_> {
    fn elements(&self) -> u32 {
        self.0.elements
    }
    fn element_of(&self, page: PageNo) -> Element {
        let others = if self.0.collecting.is_empty() { self.0.elements } else { (self.0.elements - 1).max(1) };
        Element(if self.0.collecting.contains(&page.0) { self.0.elements - 1 } else { page.0 % others })
    }
    fn destination(&self, page: PageNo) -> Option<Element> {
        // Where nothing collects, the policy chooses the channel.
        (!self.0.collecting.is_empty()).then(|| self.element_of(page))
    }
    fn collecting(&self, element: Element) -> bool {
        !self.0.collecting.is_empty() && element.0 == self.0.elements - 1
    }
    fn free_blocks(&self, _: Element) -> u32 {
        100
    }
    fn low_watermark(&self) -> u32 {
        5
    }
}

/// Returns the pages that the last request evicts.
fn evictions(
    example: &WorkedExample,
    of: &BufferExample,
    requests: &[ExampleRequest],
) -> Result<ExampleFigure, EvidenceError> {
    struct ExampleAccesses<'a>(&'a BufferExample, &'a [ExampleRequest]);
    impl PolicyVisitor for ExampleAccesses<'_> {
        type Out = Vec<u32>;

        fn visit<B: BufferPolicy + Send + 'static>(self, mut buffer: B, _built: BuiltPolicy) -> Vec<u32> {
            let Self(of, requests) = self;
            let pages = requests.iter().map(|request| request.first + request.pages).max().unwrap_or(0);
            buffer.grow(pages.next_multiple_of(of.pages_per_block));
            let mut out = Evictions::default();
            for request in requests {
                out.clear();
                for page in request.first..request.first + request.pages {
                    let access = if request.is_write { PageAccess::write(page) } else { PageAccess::read(page) };
                    buffer.access(access, &CollectingDevice(of), &mut NoVeto, &mut out);
                }
            }
            let leaving = out.groups().filter(|(group, _)| group.kind != EvictionKind::Pad);
            let mut evicted: Vec<u32> = leaving.flat_map(|(_, pages)| pages.iter().map(|page| page.0)).collect();
            evicted.sort_unstable();
            evicted
        }
    }
    let wrong = |error: &dyn std::fmt::Display| ScenarioError::new(error).at(format_args!("example {}", example.id));
    let spec: PolicySpec = example.policy.parse().map_err(|error| wrong(&error))?;
    let config =
        BufferConfig { capacity_pages: of.capacity, pages_per_block: of.pages_per_block, elements: of.elements };
    let evicted = buffer::build(&spec, config, ExampleAccesses(of, requests)).map_err(|error| wrong(&error))?;
    Ok(ExampleFigure { name: "evicts".to_owned(), expected: format!("{:?}", of.evicts), found: format!("{evicted:?}") })
}

/// Holds the requests of an example.
struct ExampleTrace(Vec<Request>);

impl TraceSource for ExampleTrace {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        out.append(&mut self.0);
        Ok(())
    }
}

/// Returns what is counted when the requests go to an array.
fn counts(
    example: &WorkedExample,
    of: &ArrayExample,
    requests: &[ExampleRequest],
) -> Result<Vec<ExampleFigure>, EvidenceError> {
    let wrong = |error: ScenarioError| error.at(format_args!("example {}", example.id));
    let mut settings = ScenarioSettings::new(SIM);
    settings.set(&format!("policy={}", example.policy)).map_err(wrong)?;
    for (key, value) in &of.settings {
        let value = text_of(value).map_err(|error| wrong(error.at(format_args!("settings: {key}"))))?;
        settings.set(&format!("{key}={value}")).map_err(wrong)?;
    }
    let requests = of.requests(&example.id, requests)?;
    let described = simulation(&settings, &SimulatedRequests::named(&example.id)).map_err(wrong)?;
    let DescribedSimulation::Array(experiment) = described else {
        return Err(wrong(ScenarioError::new("settings: expected an array")).into());
    };
    let mut open = || {
        let source = Box::new(ExampleTrace(requests.clone()));
        Ok(OpenedInput { source, format: "an example".into() })
    };
    let report = experiment.run(RESOURCES, &mut open, &|_| {});
    let report = report.map_err(|error| wrong(ScenarioError::new(error)))?;
    let [result] = &report.results[..] else {
        return Err(wrong(ScenarioError::new("settings: expected one run, of one cache size")).into());
    };
    let run = ReportRun::of_array(result);
    let count = |(name, value): (&String, &u64)| {
        let found = run.number(name);
        let found = found.ok_or_else(|| wrong(ScenarioError::new(format_args!("counts: '{name}' is no figure of it"))));
        Ok(ExampleFigure { name: name.clone(), expected: value.to_string(), found: found?.to_string() })
    };
    of.counts.iter().map(count).collect()
}

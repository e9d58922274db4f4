//! Workloads: synthetic traces of several parts, described by TOML files. Those of the papers are
//! built in.
//!
//! A workload file has the keys of `WORKLOAD` at its top and one table `[[part]]` for each stream,
//! with the keys of `PART`. `docs/workloads.md` explains them and says what the built-in ones are
//! calibrated to.

use std::fmt;
use std::path::{Path, PathBuf};

use destage_plan::Nanos;
use destage_plan::names::nearest;
use destage_trace::{AddressStripe, MixPart, MixSpec, MixTrace, SynthLength};
use toml::de::{DeTable, DeValue};

use crate::key::{count, joined};
use crate::quantity as q;
use crate::setting::declare_settings;
use crate::settings::{line_of, read};
use crate::synth::{self, STREAM};
use crate::values::parsed;
use crate::{AppliesTo, ScenarioError, ScenarioSettings, SettingKey, TypedSetting, path_text};

declare_settings! {
    /// Lists the keys of a workload file outside its parts.
    table WORKLOAD_KEYS;

    const ABOUT: TypedSetting<String> = TypedSetting::one("about", "TEXT", "", AppliesTo::All, "What it is, in a line", parsed);
    const SOURCE: TypedSetting<String> = TypedSetting::one(
        "source",
        "TEXT",
        "",
        AppliesTo::All,
        "Paper, table or figure; what is calibrated, and what is assumed",
        parsed,
    );
    const KIND: TypedSetting<WorkloadKind> = TypedSetting::one(
        "kind",
        "synthetic|stand-in",
        "",
        AppliesTo::All,
        "A paper's own synthetic workload, or a stand-in for a trace",
        kind,
    );
    const LENGTH: TypedSetting<SynthLength> = synth::LENGTH.without_default();
    const SEED: TypedSetting<u64> = synth::SEED;
}

declare_settings! {
    /// Lists the keys of a part beside those of its stream.
    table PART_KEYS;

    const PART_LENGTH: TypedSetting<SynthLength> = TypedSetting::one(
        "length",
        "REQUESTS|TIME",
        "",
        AppliesTo::All,
        "Where the part ends, counted from its start",
        parsed,
    );
    const START: TypedSetting<Nanos> = TypedSetting::one("start", "TIME", "0", AppliesTo::All, "When the part begins", q::time);
    const BASE: TypedSetting<u64> = TypedSetting::one("base", "SIZE", "0", AppliesTo::All, "Where its space begins", q::bytes);
    const VOLUME: TypedSetting<u32> = TypedSetting::one(
        "volume",
        "NUMBER",
        "0",
        AppliesTo::All,
        "The number of its first volume",
        q::count32,
    );
    const STRIPE: TypedSetting<AddressStripe> = TypedSetting::one(
        "stripe",
        "WINDOW/PERIOD",
        "",
        AppliesTo::All,
        "Use only the first WINDOW bytes of each PERIOD of its space",
        parsed,
    );
}

/// The keys of a part.
const PART: &[SettingKey] = &joined::<{ count(&[STREAM, PART_KEYS]) }>(&[STREAM, PART_KEYS]);

/// The built-in workloads, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("exchange", include_str!("../../../scenarios/workloads/exchange.toml")),
    ("cello", include_str!("../../../scenarios/workloads/cello.toml")),
    ("financial-lawc", include_str!("../../../scenarios/workloads/financial-lawc.toml")),
    ("tpc-h", include_str!("../../../scenarios/workloads/tpc-h.toml")),
    ("fiu-vm", include_str!("../../../scenarios/workloads/fiu-vm.toml")),
    ("fiu-mail", include_str!("../../../scenarios/workloads/fiu-mail.toml")),
    ("skewed", include_str!("../../../scenarios/workloads/skewed.toml")),
    ("skewed-raid5", include_str!("../../../scenarios/workloads/skewed-raid5.toml")),
    ("ms-ec", include_str!("../../../scenarios/workloads/ms-ec.toml")),
    ("ms-ft", include_str!("../../../scenarios/workloads/ms-ft.toml")),
    ("ms-ecft", include_str!("../../../scenarios/workloads/ms-ecft.toml")),
    ("hpc", include_str!("../../../scenarios/workloads/hpc.toml")),
    ("gcar", include_str!("../../../scenarios/workloads/gcar.toml")),
    ("prn_0", include_str!("../../../scenarios/workloads/prn_0.toml")),
    ("prxy_0", include_str!("../../../scenarios/workloads/prxy_0.toml")),
    ("financial1", include_str!("../../../scenarios/workloads/financial1.toml")),
    ("financial2", include_str!("../../../scenarios/workloads/financial2.toml")),
    ("hm_0", include_str!("../../../scenarios/workloads/hm_0.toml")),
    ("web_0", include_str!("../../../scenarios/workloads/web_0.toml")),
    ("fio-zipf", include_str!("../../../scenarios/workloads/fio-zipf.toml")),
    ("rsrch_0", include_str!("../../../scenarios/workloads/rsrch_0.toml")),
    ("src2_0", include_str!("../../../scenarios/workloads/src2_0.toml")),
    ("stg_0", include_str!("../../../scenarios/workloads/stg_0.toml")),
    ("mp3-copy", include_str!("../../../scenarios/workloads/mp3-copy.toml")),
    ("office-install", include_str!("../../../scenarios/workloads/office-install.toml")),
    ("web-download", include_str!("../../../scenarios/workloads/web-download.toml")),
    ("random", include_str!("../../../scenarios/workloads/random.toml")),
];

/// Says whether a workload is a paper's own or stands in for a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// A synthetic workload as its paper sets it.
    Synthetic,
    /// A substitute for a trace that cannot be had, calibrated to what is published about it.
    StandIn,
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Synthetic => "synthetic",
            Self::StandIn => "stand-in",
        })
    }
}

fn kind(text: &str) -> Result<WorkloadKind, String> {
    match text {
        "synthetic" => Ok(WorkloadKind::Synthetic),
        "stand-in" => Ok(WorkloadKind::StandIn),
        _ => Err("synthetic or stand-in".into()),
    }
}

/// A workload that was read, and the changes made to it.
#[derive(Clone, Debug)]
pub struct NamedWorkload {
    name: String,
    kind: WorkloadKind,
    about: String,
    source: String,
    settings: ScenarioSettings,
    /// Line of its heading and settings of each part.
    parts: Vec<(usize, ScenarioSettings)>,
    file: PathBuf,
    changes: Vec<String>,
}

/// All built-in workloads in the order of the papers.
pub fn built_in() -> impl Iterator<Item = NamedWorkload> {
    BUILT_IN.iter().map(|(name, text)| {
        NamedWorkload::built_in(name, text)
            .unwrap_or_else(|error| panic!("the built-in workload {name} cannot be read: {error}"))
    })
}

/// Is true if the name is a file's rather than a built-in workload's.
pub fn is_file(name: &str) -> bool {
    name.contains(['/', std::path::MAIN_SEPARATOR]) || Path::new(name).extension().is_some_and(|end| end == "toml")
}

/// The workload that the settings name, if they name one: settings of a stream that are given as
/// well change it.
pub fn named_by(settings: &ScenarioSettings) -> Result<Option<NamedWorkload>, ScenarioError> {
    let Some(mut workload) = NamedWorkload::of(settings, &synth::WORKLOAD, &synth::WORKLOAD_SET)? else {
        return Ok(None);
    };
    let others = [synth::WORKLOAD.name(), synth::WORKLOAD_SET.name(), synth::LEVEL.name()];
    let changes = settings.in_force_of(|key| settings.is_given(key) && !others.contains(&key.name));
    for (name, value) in changes {
        workload.set(&format!("{name}={value}"))?;
    }
    Ok(Some(workload))
}

impl NamedWorkload {
    /// The built-in workload of this name, or the one in this file: a file's name has a `/` in it
    /// or ends in `.toml`.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        // Built-in names come first: a file of the same name is given with its ending.
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::built_in(name, text);
        }
        if is_file(name) {
            let file = path_text::path(name);
            return Self::parse(name, &file, &read(&file)?);
        }
        let names: Vec<&str> = BUILT_IN.iter().map(|&(name, _)| name).collect();
        let near = nearest(name, names.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("did you mean '{near}'? "));
        Err(ScenarioError::new(format_args!(
            "there is no workload '{name}'; {near}give a file (FILE.toml) or one of {}",
            names.join(", ")
        )))
    }

    /// The workload that these two settings describe, its name or file and changes to it, if there is one.
    pub(crate) fn of(
        settings: &ScenarioSettings,
        workload: &TypedSetting<PathBuf>,
        changes: &TypedSetting<String>,
    ) -> Result<Option<Self>, ScenarioError> {
        let changes = changes.optional(settings)?;
        let given = workload.optional_by(settings, parsed::<String>)?;
        let (given, file) = match (given, workload.path(settings)?) {
            (Some(given), Some(file)) => (given, file),
            _ if changes.is_some() => {
                return Err(ScenarioError::new("'workload-set' needs a workload to change: give 'workload' too"));
            }
            _ => return Ok(None),
        };
        // A file named in a scenario file lies beside it.
        let mut workload = if is_file(&given) {
            Self::parse(&path_text::of(&file), &file, &read(&file)?)?
        } else {
            Self::named(&given)?
        };
        for pair in changes.iter().flat_map(|changes| changes.split_whitespace()) {
            workload.set(pair)?;
        }
        Ok(Some(workload))
    }

    fn built_in(name: &str, text: &str) -> Result<Self, ScenarioError> {
        Self::parse(name, Path::new(&format!("{name}.toml (built in)")), text)
    }

    /// Reads the text of a workload file; `file` names it in errors.
    ///
    /// # Errors
    /// File, line and key of what is wrong, and what would be right. How the values go together is
    /// checked by [`Self::open`].
    pub fn parse(name: &str, file: &Path, text: &str) -> Result<Self, ScenarioError> {
        let at = |offset: usize, message: &str| {
            ScenarioError::new(message).at(format_args!("{}, line {}", file.display(), line_of(text, offset)))
        };
        let mut table = DeTable::parse(text)
            .map_err(|error| at(error.span().map_or(0, |span| span.start), error.message()))?
            .into_inner();
        let mut parts = Vec::new();
        let wanted = "'part' is a list of tables: begin each part with the line [[part]]";
        let found = table.remove("part");
        match found.as_ref().map(|found| (found.span().start, found.get_ref())) {
            Some((_, DeValue::Array(tables))) if !tables.is_empty() => {
                for part in tables {
                    let DeValue::Table(table) = part.get_ref() else {
                        return Err(at(part.span().start, wanted));
                    };
                    let mut settings = ScenarioSettings::new(PART);
                    settings.read_table(file, text, "", table)?;
                    parts.push((line_of(text, part.span().start), settings));
                }
            }
            Some((offset, _)) => return Err(at(offset, wanted)),
            None => return Err(ScenarioError::new(format_args!("there is no [[part]]; {wanted}")).at(file.display())),
        }
        let mut settings = ScenarioSettings::new(WORKLOAD_KEYS);
        settings.read_table(file, text, "", &table)?;
        let missing =
            |key: SettingKey| ScenarioError::new(format_args!("'{}' is missing", key.name)).at(file.display());
        let text_of = |setting: TypedSetting<String>| {
            let given = setting.optional(&settings)?;
            given.map(|text| text.trim().to_owned()).ok_or_else(|| missing(setting.key()))
        };
        let (about, source) = (text_of(ABOUT)?, text_of(SOURCE)?);
        for key in [LENGTH.key(), KIND.key()] {
            if !settings.is_given(&key) {
                return Err(missing(key));
            }
        }
        let kind = KIND.get(&settings)?;
        Ok(Self { name: name.to_owned(), kind, about, source, settings, parts, file: file.to_owned(), changes: vec![] })
    }

    /// Returns the workload's name, or its file as the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that it was read from, unless it is built in.
    pub fn file(&self) -> Option<&Path> {
        is_file(&self.name).then_some(self.file.as_path())
    }

    /// Returns whether the workload is a paper's own or stands in for a trace.
    pub const fn kind(&self) -> WorkloadKind {
        self.kind
    }

    /// Returns the workload's description in a line.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns the workload's source: what is calibrated and what is assumed.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The changes made to it, as they were given.
    pub fn changes(&self) -> &[String] {
        &self.changes
    }

    /// Returns the number of parts.
    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Changes a setting: `length=VALUE`, `seed=VALUE`, `part.N.KEY=VALUE` with parts from 0, and
    /// where there is only one part also `KEY=VALUE`.
    pub fn set(&mut self, pair: &str) -> Result<(), ScenarioError> {
        let wrong = |message: String| Err(ScenarioError::new(message).at(format_args!("{}: {pair}", self.name)));
        let Some((key, value)) = pair.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
            return wrong("write KEY=VALUE".into());
        };
        let count = self.parts.len();
        if let Some(rest) = key.strip_prefix("part.") {
            let Some((number, key)) = rest.split_once('.').and_then(|(n, key)| Some((n.parse::<usize>().ok()?, key)))
            else {
                return wrong("write part.N.KEY=VALUE, N the number of the part from 0".into());
            };
            let Some((_, part)) = self.parts.get_mut(number) else {
                return wrong(format!("the parts are numbered from 0 to {}", count - 1));
            };
            part.set(&format!("{key}={value}"))?;
        } else if key == LENGTH.name() || key == SEED.name() {
            self.settings.set(&format!("{key}={value}"))?;
        } else if !PART.iter().any(|known| known.name == key) {
            let names: Vec<&str> = PART.iter().map(|key| key.name).collect();
            return wrong(format!("there is no key '{key}'; length, seed, and of a part {}", names.join(", ")));
        // With one part there is no doubt which one a key is for.
        } else if let [(_, part)] = &mut self.parts[..] {
            part.set(&format!("{key}={value}"))?;
        } else {
            return wrong(format!("there are {count} parts; say which, from part.0.{key} to part.{}.{key}", count - 1));
        }
        self.changes.push(format!("{key}={value}"));
        Ok(())
    }

    /// Makes it so many times as short: its length, and those of its parts and when they begin.
    pub fn shorten(&mut self, times: u64) -> Result<(), ScenarioError> {
        let shorter = |length: SynthLength| match length {
            SynthLength::Requests(n) => (n / times).max(1).to_string(),
            SynthLength::Duration(time) => format!("{}ns", (time.0 / times).max(1)),
        };
        let mut changes = vec![format!("length={}", shorter(LENGTH.get(&self.settings)?))];
        for (number, (_, part)) in self.parts.iter().enumerate() {
            let length = PART_LENGTH.optional(part)?;
            changes.extend(length.map(|length| format!("part.{number}.length={}", shorter(length))));
            // The starts are shortened as well, so that the parts overlap as before.
            let start = START.get(part)?.0 / times;
            changes.extend((start > 0).then(|| format!("part.{number}.start={start}ns")));
        }
        changes.iter().try_for_each(|change| self.set(change))
    }

    /// Returns the mix of streams that the settings describe.
    pub fn spec(&self) -> Result<MixSpec, ScenarioError> {
        let parts = self.parts.iter().map(|(_, part)| {
            // A part without a length of its own ends with the mix.
            let length = PART_LENGTH.optional(part)?.unwrap_or(SynthLength::Requests(u64::MAX));
            Ok(MixPart {
                // The mix gives each part its seed.
                spec: synth::stream(part, length, 0)?,
                start: START.get(part)?,
                base: BASE.get(part)?,
                volume: VOLUME.get(part)?,
                stripe: STRIPE.optional(part)?,
            })
        });
        Ok(MixSpec {
            length: LENGTH.get(&self.settings)?,
            seed: SEED.get(&self.settings)?,
            parts: parts.collect::<Result<_, ScenarioError>>()?,
        })
    }

    /// Begins to generate its requests.
    ///
    /// # Errors
    /// File and line of the part and key of a value that cannot be used, or that does not go with
    /// another.
    pub fn open(&self) -> Result<MixTrace, ScenarioError> {
        let changed = |error: ScenarioError| match &self.changes[..] {
            [] => error,
            changes => ScenarioError::new(format_args!("{error} (changed by {})", changes.join(" "))),
        };
        let wrong_key = |wrong: destage_trace::MixError| {
            let file = self.file.display();
            match wrong.part.and_then(|part| Some((part, self.parts.get(part)?.0))) {
                Some((part, line)) => {
                    ScenarioError::new(&wrong.error).at(format_args!("{file}, line {line} (part {part})"))
                }
                None => ScenarioError::new(&wrong.error).at(file),
            }
        };
        // A value may stand in a change and not in the file that the error names.
        MixTrace::new(self.spec().map_err(changed)?).map_err(|wrong| changed(wrong_key(wrong)))
    }
}

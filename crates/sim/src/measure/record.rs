//! Result structures whose every field carries its unit and meaning, so that `destage schema`
//! cannot fall behind; and, of figures, how they are shown, so that tables cannot either.

use super::{BetterValue, ValueFormat};

/// Name, unit and meaning of a field of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FieldDoc {
    /// The field's name in JSON and CSV; of a nested field the last part.
    pub name: &'static str,
    /// Gives the field's unit: "1" for counts, "-" for text.
    pub unit: &'static str,
    /// Explains the field.
    pub meaning: &'static str,
    /// The fields of a nested structure.
    #[serde(skip_serializing_if = "<[FieldDoc]>::is_empty")]
    pub fields: &'static [FieldDoc],
    /// Heading and format for people, if it is a figure.
    #[serde(skip)]
    pub figure: Option<FigureDoc>,
}

/// Describes how people see a field that is a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureDoc {
    /// Heading.
    pub heading: &'static str,
    /// Heading where a terminal's table has little room.
    pub short: &'static str,
    /// Format.
    pub show: ValueFormat,
    /// Says which value is better.
    pub better: BetterValue,
    /// Meaning, in a sentence.
    pub meaning: &'static str,
    /// The title of its chart, and what stands at the axis; empty if it has none.
    pub chart: [&'static str; 2],
    /// Tables of runs have a column for it without naming it.
    pub is_column: bool,
}

/// Counts the fields of all `parts` together.
pub const fn field_count(parts: &[&[FieldDoc]]) -> usize {
    let (mut count, mut part) = (0, 0);
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    count
}

/// Joins the fields of all `parts`, which are `COUNT` together, in their order.
pub const fn joined_fields<const COUNT: usize>(parts: &[&[FieldDoc]]) -> [FieldDoc; COUNT] {
    let mut all = [FieldDoc { name: "", unit: "", meaning: "", fields: &[], figure: None }; COUNT];
    let (mut count, mut part) = (0, 0);
    while part < parts.len() {
        let mut at = 0;
        while at < parts[part].len() {
            all[count] = parts[part][at];
            count += 1;
            at += 1;
        }
        part += 1;
    }
    assert!(count == COUNT, "COUNT is what field_count says");
    all
}

/// Defines a result structure: each field is `name: type [unit] "meaning"`, with `= nested` behind
/// the meaning for a field that is itself such a structure. The fields of one that is declared as
/// `name: type => "meaning"` stand in its place (they are flattened). Crates that use it depend on
/// serde.
///
/// A field that people are shown ends in `{ figure "heading" ValueFormat BetterValue }`: its heading, a
/// [`ValueFormat`] and a [`BetterValue`]. A shorter heading for terminals can follow the heading (`/ "short"`),
/// and `BetterValue` a meaning that suits a sentence, and the title and axis of its chart
/// (`["title", "axis"]`). With `column` in place of `figure` every table of runs ends in a column
/// for it.
///
/// `pub struct NAME from SOURCE` is made of a reference to a `SOURCE`, whose fields of these names it
/// takes.
#[macro_export]
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident from $source:ident {
            $($field:ident : $type:ty [$unit:literal] $meaning:literal $({ $($figure:tt)+ })?),+ $(,)?
        }
    ) => {
        $crate::record! {
            $(#[$meta])*
            pub struct $name { $($field: $type [$unit] $meaning $({ $($figure)+ })?),+ }
        }

        impl From<&$source> for $name {
            fn from(source: &$source) -> Self {
                Self { $($field: source.$field),+ }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($field:ident : $type:ty
                $(=> $flattened:literal)?
                $([$unit:literal] $meaning:literal $(= $nested:ty)? $({ $($figure:tt)+ })?)?
            ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
        pub struct $name {
            $(
                $(#[doc = $flattened] #[serde(flatten)])?
                $(#[doc = concat!($meaning, " (unit: ", $unit, ")")])?
                pub $field: $type,
            )+
        }

        impl $name {
            /// The fields with their units and meanings, in order.
            pub const FIELDS: &'static [$crate::measure::FieldDoc] = {
                const PARTS: &[&[$crate::measure::FieldDoc]] = &[
                    $($crate::record!(
                        @part $field $type
                        $(=> $flattened)?
                        $([$unit] $meaning $(= $nested)? $({ $($figure)+ })?)?
                    )),+
                ];
                const ALL: [$crate::measure::FieldDoc; $crate::measure::field_count(PARTS)] =
                    $crate::measure::joined_fields(PARTS);
                &ALL
            };
        }
    };
    (@part $field:ident $type:ty => $flattened:literal) => { <$type>::FIELDS };
    (@part
        $field:ident $type:ty [$unit:literal] $meaning:literal $(= $nested:ty)? $({ $($figure:tt)+ })?
    ) => {
        &[$crate::measure::FieldDoc {
            name: stringify!($field),
            unit: $unit,
            meaning: $meaning,
            fields: $crate::record!(@nested $($nested)?),
            figure: $crate::record!(@shown $meaning $({ $($figure)+ })?),
        }]
    };
    (@nested) => { &[] };
    (@nested $nested:ty) => { <$nested>::FIELDS };
    (@shown $meaning:literal) => { None };
    (@shown $meaning:literal {
        $kind:ident $heading:literal $(/ $short:literal)? $show:ident $better:ident
        $($words:literal)? $([$title:literal, $axis:literal])?
    }) => {
        Some($crate::measure::FigureDoc {
            heading: $heading,
            short: $crate::record!(@last $heading $($short)?),
            show: $crate::measure::ValueFormat::$show,
            better: $crate::measure::BetterValue::$better,
            meaning: $crate::record!(@last $meaning $($words)?),
            chart: $crate::record!(@chart $($title $axis)?),
            is_column: $crate::record!(@is_column $kind),
        })
    };
    (@last $first:literal) => { $first };
    (@last $first:literal $second:literal) => { $second };
    (@chart) => { [""; 2] };
    (@chart $title:literal $axis:literal) => { [$title, $axis] };
    (@is_column figure) => { false };
    (@is_column column) => { true };
}

pub use crate::record;

//! Result structures whose every field carries its unit and meaning, so that `destage schema`
//! cannot fall behind.

/// Name, unit and meaning of a field of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FieldDoc {
    /// The field's name in JSON and CSV; of a nested field the last part.
    pub name: &'static str,
    /// Its unit: "1" for counts, "-" for text.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
    /// The fields of a nested structure.
    #[serde(skip_serializing_if = "<[FieldDoc]>::is_empty")]
    pub fields: &'static [FieldDoc],
}

/// Defines a result structure: each field is `name: type [unit] "meaning"`, with `= nested` behind
/// the meaning for a field that is itself such a structure. Crates that use it depend on serde.
#[macro_export]
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($field:ident : $type:ty [$unit:literal] $meaning:literal $(= $nested:ty)?),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
        pub struct $name {
            $(#[doc = concat!($meaning, " (unit: ", $unit, ")")] pub $field: $type,)+
        }

        impl $name {
            /// The fields with their units and meanings, in order.
            pub const FIELDS: &'static [$crate::measure::FieldDoc] = &[
                $($crate::measure::FieldDoc {
                    name: stringify!($field),
                    unit: $unit,
                    meaning: $meaning,
                    fields: $crate::record!(@nested $($nested)?),
                }),+
            ];
        }
    };
    (@nested) => { &[] };
    (@nested $nested:ty) => { <$nested>::FIELDS };
}

pub use crate::record;

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
    let mut all = [FieldDoc { name: "", unit: "", meaning: "", fields: &[] }; COUNT];
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
#[macro_export]
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($field:ident : $type:ty
                $(=> $flattened:literal)?
                $([$unit:literal] $meaning:literal $(= $nested:ty)?)?
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
                        @part $field $type $(=> $flattened)? $([$unit] $meaning $(= $nested)?)?
                    )),+
                ];
                const ALL: [$crate::measure::FieldDoc; $crate::measure::field_count(PARTS)] =
                    $crate::measure::joined_fields(PARTS);
                &ALL
            };
        }
    };
    (@part $field:ident $type:ty => $flattened:literal) => { <$type>::FIELDS };
    (@part $field:ident $type:ty [$unit:literal] $meaning:literal $(= $nested:ty)?) => {
        &[$crate::measure::FieldDoc {
            name: stringify!($field),
            unit: $unit,
            meaning: $meaning,
            fields: $crate::record!(@nested $($nested)?),
        }]
    };
    (@nested) => { &[] };
    (@nested $nested:ty) => { <$nested>::FIELDS };
}

pub use crate::record;

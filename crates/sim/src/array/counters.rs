//! Records of counts that only grow, so that a warm-up can be taken off them.

/// As [`record!`], with fields that are all counts or sums of nanoseconds.
///
/// `from SOURCE` is as there; `by KIND` has it made of as many counts as there are of an enumeration,
/// in their order; `or null as RESULT` defines a record with the same fields, which are null where
/// there is nothing that counts.
macro_rules! counters {
    (
        $(#[$meta:meta])*
        pub struct $name:ident from $source:ident {
            $($field:ident [$unit:literal] $meaning:literal $({ $($figure:tt)+ })?),+ $(,)?
        }
    ) => {
        counters! {
            $(#[$meta])*
            pub struct $name { $($field [$unit] $meaning $({ $($figure)+ })?),+ }
        }

        impl From<&$source> for $name {
            fn from(source: &$source) -> Self {
                Self { $($field: source.$field),+ }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident by $kind:ident {
            $($field:ident [$unit:literal] $meaning:literal $({ $($figure:tt)+ })?),+ $(,)?
        }
    ) => {
        counters! {
            $(#[$meta])*
            pub struct $name { $($field [$unit] $meaning $({ $($figure)+ })?),+ }
        }

        impl From<&[u64; $kind::ALL.len()]> for $name {
            // A simulation orders no scrub, and gives no member a successor: the last kinds are no figures of its.
            fn from(&[$($field),+, _, _]: &[u64; $kind::ALL.len()]) -> Self {
                Self { $($field),+ }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident or null as $result:ident {
            $($field:ident [$unit:literal] $meaning:literal $({ $($figure:tt)+ })?),+ $(,)?
        }
    ) => {
        counters! {
            $(#[$meta])*
            pub struct $name { $($field [$unit] $meaning $({ $($figure)+ })?),+ }
        }

        $crate::measure::record! {
            $(#[$meta])*
            pub struct $result { $($field: Option<u64> [$unit] $meaning $({ $($figure)+ })?),+ }
        }

        impl From<Option<$name>> for $result {
            fn from(counted: Option<$name>) -> Self {
                Self { $($field: counted.map(|counted| counted.$field)),+ }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($field:ident [$unit:literal] $meaning:literal $({ $($figure:tt)+ })?),+ $(,)?
        }
    ) => {
        $crate::measure::record! {
            $(#[$meta])*
            #[derive(Copy, Eq)]
            pub struct $name { $($field: u64 [$unit] $meaning $({ $($figure)+ })?),+ }
        }

        impl $name {
            /// The sum of both.
            #[must_use]
            pub const fn plus(&self, other: &Self) -> Self {
                Self { $($field: self.$field + other.$field),+ }
            }

            /// All of them added up.
            pub const fn sum(&self) -> u64 {
                0 $(+ self.$field)+
            }

            /// Returns the counts since `earlier`.
            #[must_use]
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field - earlier.$field),+ }
            }
        }
    };
}

pub(crate) use counters;

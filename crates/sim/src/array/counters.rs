//! Records of counts that only grow, so that a warm-up can be taken off them.

/// As [`record!`], with fields that are all counts or sums of nanoseconds.
macro_rules! counters {
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

            /// What came since `earlier`.
            #[must_use]
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field - earlier.$field),+ }
            }
        }
    };
}

pub(crate) use counters;

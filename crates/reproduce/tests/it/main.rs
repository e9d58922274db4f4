//! Claims, figures and validation.

mod small;

mod compared;
mod counted;
mod grade;
mod kept;
mod originals;
mod page;
mod prose;
mod reproduce;
mod searched;
mod shared;
mod summary;
mod theory;
mod validation;
mod worked;

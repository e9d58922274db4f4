//! Claims, figures and validation.

mod small;

mod counted;
mod grade;
mod kept;
mod page;
mod reproduce;
mod theory;
mod validation;

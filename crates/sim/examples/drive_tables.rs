//! Runs SSD-iq's workload on modern drives and prints what they do beside the model's reference and the measured drives
//! (docs/drives.md): response times by load, what each part is for, write amplification by fill, and throughput by skew.
//!
//! `cargo run --release -p destage-sim --example drive_tables [pm9a3|p5520|parts|fill|skew|sizes]`

#[path = "../tests/it/modern_load/load.rs"]
mod load;
#[path = "drive_tables/rates.rs"]
mod rates;
#[path = "drive_tables/responses.rs"]
mod responses;

use destage_plan::PageGeometry;
use destage_sim::ssd::{ModernDesign, Ssd, SsdConfig, SsdShape, StartState};

/// Returns the preset with so many GiB and word lines, changed.
fn drive(name: &str, pages: u64, word_lines: u32, change: &dyn Fn(&mut SsdConfig)) -> Ssd {
    let page = PageGeometry::new(4096, 64).expect("a geometry");
    let mut config = ModernDesign::named(name).expect("a preset").config(page);
    let modern = config.modern.as_mut().expect("modern");
    (modern.exported_pages, modern.word_lines) = (pages, Some(word_lines));
    change(&mut config);
    let ssd = Ssd::new(SsdShape::new(config, page).expect("a shape"), StartState::Steady { seed: 1 });
    ssd.check().expect("its laws");
    ssd
}

fn main() {
    let only = std::env::args().nth(1);
    let parts: [(&str, fn()); 6] = [
        ("pm9a3", responses::pm9a3),
        ("p5520", responses::p5520),
        ("parts", responses::parts),
        ("sizes", responses::sizes),
        ("fill", rates::fill),
        ("skew", rates::skew),
    ];
    for (name, print) in parts {
        if only.as_deref().is_none_or(|only| only == name) {
            print();
        }
    }
}

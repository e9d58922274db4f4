//! Draws the times at which the devices of an array collect garbage: a lane for each, so that overlaps show.
//! The drawing needs no script.

use std::fmt::Write as _;

use destage_scenario::quantity::{show_count, show_time};

use crate::ReportRun;
use crate::escape::escaped;
use crate::group::RunGroup;

/// Runs of a group that are drawn at most.
const MOST: usize = 12;
/// Width of the picture and of the names before the lanes, height of a lane and of its bars.
const WIDTH: f64 = 1000.0;
const NAMES: f64 = 70.0;
const LANE: f64 = 16.0;
const BAR: f64 = 11.0;

/// A device from begin to end of a collection, in ns.
type LaneSpan = (f64, f64);

/// The devices of a run with what is shown of each, those that collect nothing too.
fn lanes(run: &ReportRun) -> Vec<(&str, Vec<LaneSpan>)> {
    let text = |value: &'static str| move |of: &serde_json::Value| of.get(value)?.as_f64();
    let name = |of: &'_ serde_json::Value| of.get("device").and_then(serde_json::Value::as_str).map(str::to_owned);
    let devices = run.list("devices").iter().filter(|device| device.get("model").is_some_and(|model| model == "ssd"));
    let names = devices.filter_map(|device| device.get("device")?.as_str());
    let shown = run.list("collections.shown");
    let of = |device: &str| {
        let own = shown.iter().filter(|span| name(span).as_deref() == Some(device));
        own.filter_map(|span| Some((text("start")(span)?, text("end")(span)?))).collect()
    };
    names.map(|device| (device, of(device))).collect()
}

/// The times in which at least two collect.
fn together(lanes: &[(&str, Vec<LaneSpan>)]) -> Vec<LaneSpan> {
    let all = lanes.iter().flat_map(|lane| &lane.1);
    let mut edges: Vec<(f64, i32)> = all.flat_map(|&(start, end)| [(start, 1), (end, -1)]).collect();
    // Ends come before begins.
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut count, mut since, mut spans) = (0, 0.0, Vec::new());
    for (at, change) in edges {
        let before = count;
        count += change;
        match (before >= 2, count >= 2) {
            (false, true) => since = at,
            (true, false) => spans.push((since, at)),
            _ => {}
        }
    }
    spans
}

/// A lane's bars as one path.
fn path(spans: &[LaneSpan], first: f64, scale: f64, top: f64) -> String {
    let mut path = String::new();
    for (start, end) in spans {
        let (x, width) = (NAMES + (start - first) * scale, ((end - start) * scale).max(0.4));
        let _ = write!(path, "M{x:.1} {top}h{width:.1}v{BAR}h-{width:.1}z");
    }
    path
}

/// One run.
fn picture(html: &mut String, name: &str, run: &ReportRun, lanes: &[(&str, Vec<LaneSpan>)]) {
    let all = || lanes.iter().flat_map(|lane| &lane.1);
    let first = all().map(|span| span.0).fold(f64::INFINITY, f64::min);
    let last = all().map(|span| span.1).fold(0.0, f64::max);
    let scale = (WIDTH - NAMES) / (last - first).max(1.0);
    let (count, kept) = (run.number("collections.spans").unwrap_or(0.0), all().count());
    let mean = |path: &str| run.number(path).map_or("–".to_owned(), |mean| format!("{mean:.2}"));
    let which = if count > kept as f64 {
        format!("the {kept} consecutive ones of {} that came closest together", show_count(count as u64))
    } else {
        format!("all {kept}")
    };
    let _ = writeln!(
        html,
        "<div class=\"lanes\"><p><strong>{}</strong> <span class=\"note\">{which}: {} from {} after the first request on. \
         Over the whole run {} members collect at a time while any does, and {}, averaged over all time, together with others.</span></p>",
        escaped(name),
        show_time(last - first),
        show_time(first),
        mean("collections.overlap.mean_collecting"),
        mean("collections.overlap.mean_together"),
    );
    let height = LANE * (lanes.len() + 1) as f64;
    let _ = write!(
        html,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Collections of {} devices over time, {}\">",
        lanes.len(),
        escaped(name)
    );
    let mut lane = |number: usize, name: &str, class: &str, spans: &[LaneSpan]| {
        let top = LANE * number as f64 + (LANE - BAR) / 2.0;
        let _ = write!(
            html,
            "<text x=\"{}\" y=\"{}\">{name}</text><path class=\"{class}\" d=\"{}\"/>",
            NAMES - 6.0,
            top + BAR - 1.0,
            path(spans, first, scale, top)
        );
    };
    for (number, (device, spans)) in lanes.iter().enumerate() {
        lane(number, &escaped(device), "one", spans);
    }
    lane(lanes.len(), "2 or more", "more", &together(lanes));
    html.push_str("</svg></div>\n");
}

/// Writes the section with the collections of a group's arrays of SSDs, if any collects.
pub(super) fn section(html: &mut String, number: usize, group: &RunGroup, runs: &[ReportRun]) {
    let mut drawn = 0;
    for point in &group.points {
        let run = &runs[point.run];
        let lanes = lanes(run);
        if lanes.iter().all(|lane| lane.1.is_empty()) {
            continue;
        }
        drawn += 1;
        if drawn == 1 {
            let _ = write!(
                html,
                "<h3 id=\"lanes-{number}\">Collections of the devices</h3>\n\
                 <p class=\"note\">A lane for each device; a bar is a time in which it collects garbage, with whichever of its elements.</p>\n"
            );
        }
        if drawn <= MOST {
            picture(html, &group.name(*point), run, &lanes);
        }
    }
    if drawn > MOST {
        let _ = writeln!(html, "<p class=\"note\">{} runs more are not drawn.</p>", drawn - MOST);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lane_for_each_ssd_and_one_for_what_coincides() {
        let span = |device: &str, start: u64, end: u64| json!({"device": device, "start": start, "end": end});
        let run = ReportRun {
            result: json!({
                "devices": [
                    {"device": "0", "model": "ssd"}, {"device": "1", "model": "ssd"},
                    {"device": "2", "model": "ssd"}, {"device": "cache", "model": "disk"}
                ],
                "collections": {
                    "spans": 1200, "overlap": {"mean_collecting": 1.5, "mean_together": 0.25},
                    "shown": [span("0", 100, 200), span("1", 150, 300), span("0", 300, 500)]
                }
            }),
            is_array: true,
        };
        let lanes = lanes(&run);
        assert_eq!(lanes, [("0", vec![(100.0, 200.0), (300.0, 500.0)]), ("1", vec![(150.0, 300.0)]), ("2", vec![])]);
        assert_eq!(together(&lanes), [(150.0, 200.0)], "what begins where another ends does not coincide");
        let mut html = String::new();
        picture(&mut html, "ggc+<wow>", &run, &lanes);
        // 930 units for 400 ns: device 0 has the first quarter and the second half.
        assert!(html.contains("d=\"M70.0 2.5h232.5v11h-232.5zM535.0 2.5h465.0v11h-465.0z\""), "{html}");
        assert!(html.contains(">2</text><path class=\"one\" d=\"\"/>"), "{html}");
        assert!(html.contains("class=\"more\" d=\"M186.2 50.5h116.3v11h-116.3z\""), "{html}");
        assert!(html.contains("the 3 consecutive ones of 1,200") && html.contains("ggc+&lt;wow&gt;"), "{html}");
    }
}

//! Draws what the model does beside what was measured: lines and dots of one colour for each figure.

use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;

/// Sets width and height, in pixels.
const SIZE: (u32, u32) = (960, 440);
/// Colours of lines that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 5] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167), RGBColor(120, 94, 0)];

/// Describes the axis of what was varied.
pub(super) struct ChartAxis {
    pub(super) name: String,
    /// Names the whole numbers from 0 on, if they stand for something else.
    pub(super) labels: Vec<String>,
}

/// Holds a figure, by the model and as measured.
pub(super) struct ChartLine {
    pub(super) name: String,
    pub(super) model: Vec<(f64, f64)>,
    pub(super) measured: Vec<(f64, f64)>,
}

/// Describes a chart.
pub(super) struct ComparisonChart {
    pub(super) title: String,
    pub(super) x: ChartAxis,
    /// Names the unit of the figures.
    pub(super) y: String,
    /// Is true if the axis of the figures is logarithmic.
    pub(super) is_log: bool,
    pub(super) lines: Vec<ChartLine>,
}

impl ComparisonChart {
    /// Returns the chart as SVG.
    pub(super) fn svg(&self) -> String {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            // Writing to a string does not fail.
            self.draw(&area).expect("a string takes the drawing");
            area.present().expect("a string takes the drawing");
        }
        svg
    }

    fn draw<'a>(&self, area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>) -> Result<(), DrawError<'a>> {
        area.fill(&WHITE)?;
        let points = || self.lines.iter().flat_map(|line| line.model.iter().chain(&line.measured));
        let low = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let high = points().map(|point| point.0).fold(0.0, f64::max);
        let top = points().map(|point| point.1).fold(0.0, f64::max);
        let margin = (high - low) * 0.04;
        let x = low - margin..high + margin;
        let mut builder = ChartBuilder::on(area);
        builder.caption(&self.title, ("sans-serif", 20)).margin(12).x_label_area_size(44).y_label_area_size(64);
        if self.is_log {
            let bottom = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
            self.fill_in(builder.build_cartesian_2d(x, (bottom * 0.7..top * 1.5).log_scale())?)
        } else {
            self.fill_in(builder.build_cartesian_2d(x, 0.0..top * 1.1)?)
        }
    }

    fn fill_in<'a, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<plotters::coord::types::RangedCoordf64, Y>>,
    ) -> Result<(), DrawError<'a>>
    where
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let x = |value: &f64| match self.x.labels.get(value.round() as usize) {
            Some(label) if (value - value.round()).abs() < 1e-6 && *value > -0.5 => label.clone(),
            _ if self.x.labels.is_empty() => format!("{value:.0}"),
            _ => String::new(),
        };
        let y = |value: &f64| if *value < 10.0 && !self.is_log { format!("{value:.1}") } else { format!("{value:.0}") };
        chart
            .configure_mesh()
            .x_labels(self.x.labels.len().max(10))
            .x_label_formatter(&x)
            .y_label_formatter(&y)
            .x_desc(&self.x.name)
            .y_desc(&self.y)
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", 13))
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS) {
            chart
                .draw_series(LineSeries::new(line.model.iter().copied(), colour.stroke_width(2)))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            chart.draw_series(line.measured.iter().map(|&point| Circle::new(point, 4, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .border_style(BLACK.mix(0.3))
            .background_style(WHITE.mix(0.85))
            .label_font(("sans-serif", 13))
            .draw()
    }
}

/// Says why a chart could not be drawn.
type DrawError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

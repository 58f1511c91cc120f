//! Figures: their description as JSON, their drawing as SVG and PNG.

use carillon_lab::plot::{Axis, Dash, Figure, HiLoMean, Marker, Marks, Percentiles, Series, png, svg};

fn figure() -> Figure {
    let series = |name: &str, colour, marks| Series { name: name.into(), colour, marks };
    let line = Marks::Line { points: vec![(1.0, 2.0), (2.0, 3.0)], dash: Dash::Dashed, marker: None };
    let points = Marks::Points { points: vec![(1.0, 2.5)], marker: Marker::Circle };
    let bars = Marks::HiLoMean { points: vec![HiLoMean { x: 1.0, low: 1.0, mean: 2.0, high: 4.0 }] };
    let boxes = Percentiles { x: 2.0, min: 1.0, p25: 2.0, p50: 2.5, p75: 3.0, max: 4.0 };
    Figure {
        id: "small".into(),
        title: "Small & <plain>".into(),
        notes: vec!["one line".into()],
        x: Axis::new("Receivers", None),
        y: Axis::new("Message latency", Some("bit times")),
        series: vec![
            series("band", 1, Marks::Band { points: vec![(1.0, 1.5, 2.5), (2.0, 2.0, 3.5)] }),
            series("line", 0, line),
            series("points", 2, points),
            series("bars", 3, bars),
            series("boxes", 4, Marks::Boxes { points: vec![boxes] }),
        ],
    }
}

#[test]
fn the_description_is_plain_json() {
    let json = serde_json::to_string(&figure()).unwrap();
    assert_eq!(
        json,
        concat!(
            r#"{"id":"small","title":"Small & <plain>","notes":["one line"],"#,
            r#""x":{"label":"Receivers","unit":null,"log":false},"#,
            r#""y":{"label":"Message latency","unit":"bit times","log":false},"series":["#,
            r#"{"name":"band","colour":1,"kind":"band","points":[[1.0,1.5,2.5],[2.0,2.0,3.5]]},"#,
            r#"{"name":"line","colour":0,"kind":"line","points":[[1.0,2.0],[2.0,3.0]],"dash":"dashed","marker":null},"#,
            r#"{"name":"points","colour":2,"kind":"points","points":[[1.0,2.5]],"marker":"circle"},"#,
            r#"{"name":"bars","colour":3,"kind":"hi-lo-mean","points":[{"x":1.0,"low":1.0,"mean":2.0,"high":4.0}]},"#,
            r#"{"name":"boxes","colour":4,"kind":"boxes","points":[{"x":2.0,"min":1.0,"p25":2.0,"p50":2.5,"p75":3.0,"max":4.0}]}"#,
            "]}"
        )
    );
    assert_eq!(serde_json::from_str::<Figure>(&json).unwrap(), figure());
}

#[test]
fn the_drawing_is_the_same_each_time_and_well_formed() {
    let text = svg(&figure());
    assert_eq!(text, svg(&figure()));
    assert!(text.contains("Small &amp; &lt;plain&gt;") && text.contains("Message latency (bit times)"));
    // The rasteriser reads it as XML.
    let picture = png(&figure(), 1.0).unwrap();
    assert_eq!(picture, png(&figure(), 1.0).unwrap());
    assert_eq!(&picture[..8], b"\x89PNG\r\n\x1a\n");
}

#[test]
fn text_is_drawn_without_fonts_of_the_system() {
    let nameless = Figure { title: String::new(), notes: vec![String::new()], ..figure() };
    assert_ne!(png(&figure(), 1.0).unwrap(), png(&nameless, 1.0).unwrap());
}

#[test]
fn nothing_to_draw_and_logarithmic_axes_are_drawn_too() {
    let empty = Figure { series: Vec::new(), ..figure() };
    assert!(svg(&empty).ends_with("</svg>\n"));
    let mut log = figure();
    (log.x.log, log.y.log) = (true, true);
    for figure in [empty, log] {
        let text = svg(&figure);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        png(&figure, 1.0).unwrap();
    }
}

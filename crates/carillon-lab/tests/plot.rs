//! Figures: their description as JSON, their drawing as SVG and PNG.

use carillon_lab::plot::{Axis, Dash, Figure, HiLoMean, Marker, Marks, Percentiles, Series, pdf, png, svg};

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
fn a_pdf_has_one_page_with_every_path_and_text_of_the_drawing() {
    let bytes = pdf(&figure()).unwrap();
    assert_eq!(bytes, pdf(&figure()).unwrap());
    assert!(bytes.starts_with(b"%PDF-") && bytes.ends_with(b"%%EOF"));
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("/Count 1") && text.contains("/Title (Small & <plain>)"), "{text}");

    // The only stream: the operators of the page, one to a line.
    let after = |mark: &[u8]| bytes.windows(mark.len()).position(|part| part == mark).unwrap() + mark.len();
    let stream = &bytes[after(b"stream\n")..after(b"\nendstream") - b"\nendstream".len()];
    let page = miniz_oxide::inflate::decompress_to_vec_zlib(stream).unwrap();
    let page = String::from_utf8_lossy(&page);
    let count =
        |operator: &str| page.lines().filter(|line| line.split(' ').next_back() == Some(operator)).count();
    assert_eq!(count("q"), count("Q"));
    assert!(page.contains("(Message latency (bit times)) Tj"), "{page}");

    // Shapes of the SVG are painted paths here, except a line through one point. A text has a path of its letters.
    let drawing = svg(&figure());
    let tags = ["<rect", "<line", "<polyline", "<path", "<circle", "<polygon"];
    let is_point =
        |line: &str| line.starts_with("<polyline") && !line.split('"').nth(1).unwrap().contains(' ');
    let is_shape = |line: &&str| tags.iter().any(|tag| line.starts_with(tag)) && !is_point(line);
    let shapes = drawing.lines().filter(is_shape).count();
    let painted: usize = ["f", "f*", "S", "B", "B*"].map(count).iter().sum();
    let texts = drawing.matches("<text").count();
    assert_eq!(count("Tj"), texts);
    assert_eq!(painted, shapes + texts, "{drawing}");
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
        pdf(&figure).unwrap();
    }
}

#[test]
fn long_headings_are_broken_into_lines_that_fit() {
    let title = "MBAP, relative throughput, window 10, BAPrand 12000 (Segovia 1996, Figure 4.16)";
    let text = svg(&Figure { title: title.into(), ..figure() });
    assert!(text.contains(">MBAP, relative throughput, window 10, BAPrand 12000</text>"), "{text}");
    assert!(text.contains(">(Segovia 1996, Figure 4.16)</text>"), "{text}");
    let words = svg(&Figure { title: ["word"; 30].join(" "), ..figure() });
    assert_eq!(words.matches(&format!(">{}</text>", ["word"; 14].join(" "))).count(), 2, "{words}");
    assert!(text.contains(&format!("<title>{title}</title>")), "its name is not broken");
}

#[test]
fn a_series_without_a_name_is_drawn_but_not_in_the_legend() {
    let mut nameless = figure();
    nameless.series[0].name.clear();
    let (named, nameless) = (svg(&figure()), svg(&nameless));
    assert_eq!(named.matches("fill-opacity").count(), 2, "the band and its key");
    assert_eq!(nameless.matches("fill-opacity").count(), 1);
}

#[test]
fn the_outline_of_a_mark_goes_around_it_without_covering_it() {
    for marker in [Marker::Disc, Marker::Square, Marker::Triangle, Marker::Diamond] {
        let outline = marker.outline();
        assert_ne!(marker, outline);
        assert_eq!(outline.outline(), outline);
        let drawn = |marker| {
            let marks = Marks::Points { points: vec![(1.0, 1.0)], marker };
            svg(&Figure { series: vec![Series { name: String::new(), colour: 1, marks }], ..figure() })
        };
        assert!(drawn(outline).contains("fill=\"none\" stroke=\"#0072b2\""));
        assert!(drawn(marker).contains("fill=\"#0072b2\""));
    }
}

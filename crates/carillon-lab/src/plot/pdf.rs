//! A figure as PDF: one page of its size, with vector graphics.
//!
//! Letters are drawn as outlines of the built-in font, so the page needs no fonts. An invisible line of the same text
//! lies over each of them, so that it can be searched and copied.

use miniz_oxide::deflate::compress_to_vec_zlib;
use pdf_writer::types::{LineCapStyle, LineJoinStyle, TextRenderingMode};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, Str, TextStr};
use resvg::tiny_skia::{PathSegment, Transform};
use resvg::usvg::{self, FillRule, Group, LineCap, LineJoin, Node, Paint, PaintOrder, Path, Text};

use super::drawing::{DrawingError, parsed};
use super::figure::Figure;
use super::svg::{panels_svg, svg};

/// Points (1/72 inch) for each unit of the SVG: figures are 4.8 inches wide, the column of a paper and a half.
const POINTS: f32 = 0.48;

/// Level of compression.
const LEVEL: u8 = 6;

/// A figure as PDF.
pub fn pdf(figure: &Figure) -> Result<Vec<u8>, DrawingError> {
    page(&svg(figure), &figure.title)
}

/// Several figures as one page.
pub fn panels_pdf(figures: &[Figure]) -> Result<Vec<u8>, DrawingError> {
    page(&panels_svg(figures), figures.first().map_or("", |figure| &figure.title))
}

fn page(drawing: &str, title: &str) -> Result<Vec<u8>, DrawingError> {
    let tree = parsed(drawing)?;
    let (width, height) = (tree.size().width() * POINTS, tree.size().height() * POINTS);
    let mut painter = Painter { content: Content::new(), opacities: Vec::new() };
    // PDF counts upwards from the lower edge.
    painter.content.transform([POINTS, 0.0, 0.0, -POINTS, 0.0, height]);
    painter.group(tree.root());

    let [catalog, pages, page, content, font, info] = [1, 2, 3, 4, 5, 6].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.document_info(info).title(TextStr(title)).creator(TextStr("Carillon"));
    pdf.pages(pages).kids([page]).count(1);
    let mut sheet = pdf.page(page);
    sheet.parent(pages).media_box(Rect::new(0.0, 0.0, width, height)).contents(content);
    let mut resources = sheet.resources();
    resources.fonts().pair(FONT, font);
    let mut states = resources.ext_g_states();
    for (index, (fill, stroke)) in painter.opacities.iter().enumerate() {
        let name = format!("g{index}");
        let mut state =
            states.insert(Name(name.as_bytes())).start::<pdf_writer::writers::ExtGraphicsState<'_>>();
        state.non_stroking_alpha(*fill).stroking_alpha(*stroke);
    }
    states.finish();
    resources.finish();
    sheet.finish();
    pdf.type1_font(font).base_font(Name(b"Helvetica")).encoding_predefined(Name(b"WinAnsiEncoding"));
    let compressed = compress_to_vec_zlib(&painter.content.finish(), LEVEL);
    pdf.stream(content, &compressed).filter(Filter::FlateDecode);
    Ok(pdf.finish())
}

/// Font of the invisible text: every reader has it.
const FONT: Name<'static> = Name(b"f");

/// Writes the parts of a drawing as the operators of a page.
struct Painter {
    content: Content,
    /// Opacities of fills and strokes that the page has used.
    opacities: Vec<(f32, f32)>,
}

impl Painter {
    fn group(&mut self, group: &Group) {
        for node in group.children() {
            match node {
                Node::Group(group) => self.group(group),
                Node::Path(path) => self.path(path),
                Node::Text(text) => self.text(text),
                // Figures contain no pictures.
                Node::Image(_) => {}
            }
        }
    }

    fn text(&mut self, text: &Text) {
        self.group(text.flattened());
        let letters: String = text.chunks().iter().map(usvg::TextChunk::text).collect();
        let Some(span) = text.chunks().first().and_then(|chunk| chunk.spans().first()) else { return };
        let bounds = text.bounding_box();
        self.content.save_state();
        self.transform(text.abs_transform());
        self.content
            .begin_text()
            .set_font(FONT, span.font_size().get())
            .set_text_rendering_mode(TextRenderingMode::Invisible)
            .set_text_matrix([1.0, 0.0, 0.0, -1.0, bounds.left(), bounds.bottom()])
            .show(Str(&win_ansi(&letters)))
            .end_text();
        self.content.restore_state();
    }

    fn path(&mut self, path: &Path) {
        if !path.is_visible() {
            return;
        }
        self.content.save_state();
        self.transform(path.abs_transform());
        let fill = path.fill().and_then(|fill| Some((colour(fill.paint())?, fill)));
        let stroke = path.stroke().and_then(|stroke| Some((colour(stroke.paint())?, stroke)));
        self.opacity(
            fill.map_or(1.0, |(_, fill)| fill.opacity().get()),
            stroke.map_or(1.0, |(_, s)| s.opacity().get()),
        );
        if let Some(([red, green, blue], _)) = fill {
            self.content.set_fill_rgb(red, green, blue);
        }
        if let Some(([red, green, blue], stroke)) = stroke {
            self.content.set_stroke_rgb(red, green, blue);
            self.pen(stroke);
        }
        let rule = fill.map(|(_, fill)| fill.rule());
        self.outline(path);
        match (rule, stroke.is_some(), path.paint_order()) {
            (Some(FillRule::NonZero), true, PaintOrder::FillAndStroke) => {
                self.content.fill_nonzero_and_stroke()
            }
            (Some(FillRule::EvenOdd), true, PaintOrder::FillAndStroke) => {
                self.content.fill_even_odd_and_stroke()
            }
            (Some(rule), true, PaintOrder::StrokeAndFill) => {
                self.content.stroke();
                self.outline(path);
                match rule {
                    FillRule::NonZero => self.content.fill_nonzero(),
                    FillRule::EvenOdd => self.content.fill_even_odd(),
                }
            }
            (Some(FillRule::NonZero), false, _) => self.content.fill_nonzero(),
            (Some(FillRule::EvenOdd), false, _) => self.content.fill_even_odd(),
            (None, true, _) => self.content.stroke(),
            (None, false, _) => self.content.end_path(),
        };
        self.content.restore_state();
    }

    fn outline(&mut self, path: &Path) {
        let mut last = (0.0, 0.0);
        for segment in path.data().segments() {
            match segment {
                PathSegment::MoveTo(to) => {
                    self.content.move_to(to.x, to.y);
                    last = (to.x, to.y);
                }
                PathSegment::LineTo(to) => {
                    self.content.line_to(to.x, to.y);
                    last = (to.x, to.y);
                }
                PathSegment::QuadTo(by, to) => {
                    // The cubic curve of the same shape: control points two thirds of the way to the quadratic one.
                    let towards = |end: f32, control: f32| end + (control - end) * 2.0 / 3.0;
                    let (x1, y1) = (towards(last.0, by.x), towards(last.1, by.y));
                    self.content.cubic_to(x1, y1, towards(to.x, by.x), towards(to.y, by.y), to.x, to.y);
                    last = (to.x, to.y);
                }
                PathSegment::CubicTo(one, two, to) => {
                    self.content.cubic_to(one.x, one.y, two.x, two.y, to.x, to.y);
                    last = (to.x, to.y);
                }
                PathSegment::Close => {
                    self.content.close_path();
                }
            }
        }
    }

    fn pen(&mut self, stroke: &usvg::Stroke) {
        self.content.set_line_width(stroke.width().get());
        self.content.set_miter_limit(stroke.miterlimit().get());
        self.content.set_line_cap(match stroke.linecap() {
            LineCap::Butt => LineCapStyle::ButtCap,
            LineCap::Round => LineCapStyle::RoundCap,
            LineCap::Square => LineCapStyle::ProjectingSquareCap,
        });
        self.content.set_line_join(match stroke.linejoin() {
            LineJoin::Miter | LineJoin::MiterClip => LineJoinStyle::MiterJoin,
            LineJoin::Round => LineJoinStyle::RoundJoin,
            LineJoin::Bevel => LineJoinStyle::BevelJoin,
        });
        if let Some(dashes) = stroke.dasharray() {
            self.content.set_dash_pattern(dashes.iter().copied(), stroke.dashoffset());
        }
    }

    fn opacity(&mut self, fill: f32, stroke: f32) {
        if (fill, stroke) == (1.0, 1.0) {
            return;
        }
        let known = self.opacities.iter().position(|pair| *pair == (fill, stroke));
        let index = known.unwrap_or_else(|| {
            self.opacities.push((fill, stroke));
            self.opacities.len() - 1
        });
        self.content.set_parameters(Name(format!("g{index}").as_bytes()));
    }

    fn transform(&mut self, by: Transform) {
        if !by.is_identity() {
            self.content.transform([by.sx, by.ky, by.kx, by.sy, by.tx, by.ty]);
        }
    }
}

/// Text in the encoding of the invisible font, with a question mark for a letter that it lacks.
fn win_ansi(text: &str) -> Vec<u8> {
    let byte = |letter: char| match letter {
        '\u{20}'..='\u{7e}' | '\u{a0}'..='\u{ff}' => letter as u8,
        '…' => 0x85,
        '–' => 0x96,
        '—' => 0x97,
        _ => b'?',
    };
    text.chars().map(byte).collect()
}

/// Colour from 0 to 1. Figures contain plain colours only.
fn colour(paint: &Paint) -> Option<[f32; 3]> {
    match paint {
        Paint::Color(colour) => {
            Some([colour.red, colour.green, colour.blue].map(|part| f32::from(part) / 255.0))
        }
        _ => None,
    }
}

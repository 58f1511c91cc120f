//! A figure as PNG.

use resvg::tiny_skia::{Pixmap, Transform};

use super::drawing::{DrawingError, parsed};
use super::figure::Figure;
use super::svg::{panels_svg, svg};

/// A figure as PNG, `scale` pixels for each unit of the SVG.
pub fn png(figure: &Figure, scale: f32) -> Result<Vec<u8>, DrawingError> {
    rasterised(&svg(figure), scale)
}

/// Several figures as one picture.
pub fn panels_png(figures: &[Figure], scale: f32) -> Result<Vec<u8>, DrawingError> {
    rasterised(&panels_svg(figures), scale)
}

fn rasterised(drawing: &str, scale: f32) -> Result<Vec<u8>, DrawingError> {
    let tree = parsed(drawing)?;
    let size = tree.size().to_int_size().scale_by(scale).ok_or(DrawingError::Size)?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or(DrawingError::Size)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| DrawingError::Encoding(error.to_string()))
}

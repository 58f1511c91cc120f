//! A figure as PNG: its SVG, rasterised with a font that is part of the program.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, fontdb};
use thiserror::Error;

use super::{Figure, panels_svg, svg};

/// A figure that could not be rasterised.
#[derive(Debug, Error)]
pub enum PngError {
    /// Its SVG.
    #[error("the drawing cannot be read: {0}")]
    Svg(#[from] usvg::Error),
    /// Its size.
    #[error("the drawing has no size that can be rasterised")]
    Size,
    /// Its encoding.
    #[error("the picture cannot be encoded: {0}")]
    Encoding(String),
}

/// A figure as PNG, `scale` pixels for each unit of the SVG.
pub fn png(figure: &Figure, scale: f32) -> Result<Vec<u8>, PngError> {
    rasterised(&svg(figure), scale)
}

/// Several figures as one picture.
pub fn panels_png(figures: &[Figure], scale: f32) -> Result<Vec<u8>, PngError> {
    rasterised(&panels_svg(figures), scale)
}

fn rasterised(drawing: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    let options = usvg::Options { fontdb: fonts(), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(drawing, &options)?;
    let size = tree.size().to_int_size().scale_by(scale).ok_or(PngError::Size)?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or(PngError::Size)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Encoding(error.to_string()))
}

/// Fonts built into the program. System fonts would give different bytes on different machines.
fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(dejavu::sans::regular().to_vec());
        fonts.load_font_data(dejavu::sans::bold().to_vec());
        fonts.set_sans_serif_family("DejaVu Sans");
        Arc::new(fonts)
    };
    FONTS.get_or_init(load).clone()
}

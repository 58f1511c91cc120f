//! A drawn figure: its SVG, read back with a font that is part of the program.

use std::sync::{Arc, OnceLock};

use resvg::usvg::{self, fontdb};
use thiserror::Error;

/// Error of converting a figure's SVG to another format.
#[derive(Debug, Error)]
pub enum DrawingError {
    /// The SVG cannot be read.
    #[error("the drawing cannot be read: {0}")]
    Svg(#[from] usvg::Error),
    /// The SVG has no size, or one that is too large.
    #[error("the drawing has no size that can be rasterised")]
    Size,
    /// The picture cannot be encoded.
    #[error("the picture cannot be encoded: {0}")]
    Encoding(String),
}

/// Parses an SVG into paths and text.
pub fn parsed(drawing: &str) -> Result<usvg::Tree, DrawingError> {
    let options = usvg::Options { fontdb: fonts(), ..usvg::Options::default() };
    Ok(usvg::Tree::from_str(drawing, &options)?)
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

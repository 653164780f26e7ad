//! Which errors tell of damage, and which only of a command that cannot be carried out.

use warpkeep_image::ImageError;
use warpkeep_log::LogError;

/// Asks an error what it tells of.
pub(crate) trait IsDamage {
    /// Whether bytes are not what they should be.
    fn is_damage(&self) -> bool;
}

impl IsDamage for ImageError {
    fn is_damage(&self) -> bool {
        matches!(
            self,
            ImageError::Damaged { .. } | ImageError::Truncated { .. } | ImageError::NotIntact { .. }
        )
    }
}

impl IsDamage for LogError {
    fn is_damage(&self) -> bool {
        matches!(
            self,
            LogError::Corrupt { .. }
                | LogError::EndMissing { .. }
                | LogError::SegmentMissing { .. }
                | LogError::CheckpointDamaged { .. }
                | LogError::ManifestDamaged { .. }
                | LogError::ManifestMissing { .. }
                | LogError::ForeignStore { .. }
                | LogError::ForeignFile { .. }
        )
    }
}

impl IsDamage for warpkeep::Error {
    fn is_damage(&self) -> bool {
        match self {
            warpkeep::Error::Image(error) => error.is_damage(),
            warpkeep::Error::Log(error) => error.is_damage(),
            // A root that leads to something no program of this version writes; or the two do not belong together.
            warpkeep::Error::Invalid(_) | warpkeep::Error::Mismatch { .. } => true,
            _ => false,
        }
    }
}

//! The calls that maps, sets and multimaps have in common.

/// Defines them for a table with a field `body`. Documentation differs in the words for the table and for what it holds.
macro_rules! common_calls {
    (
        [$($generics:tt)*] $table:ty, $body:ty, unique: $unique:literal, file: $kind:expr,
        table: $noun:literal, holds: $held:literal, in_kernels: $in_kernels:literal, wide: $wide:literal
    ) => {
        impl<$($generics)*> $table {
            /// The programs that its kernels are in.
            pub fn programs() -> Vec<::warpkeep_device::Program> {
                <$body>::programs($unique)
            }

            #[doc = concat!("An empty ", $noun, " in the memory of this device.")]
            ///
            /// # Errors
            #[doc = concat!("If slabs of another size than 64 or 128 bytes are asked for, or there is no memory for this many ", $held, ".")]
            pub fn new(
                device: &::warpkeep_device::Device,
                options: $crate::SlabHashOptions,
            ) -> Result<Self, $crate::ContainerError> {
                Ok(Self { body: <$body>::new(device, options, $unique)? })
            }

            #[doc = concat!("How many ", $held, " there are.")]
            pub fn len(&self) -> Result<u64, $crate::ContainerError> {
                self.body.len()
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> Result<bool, $crate::ContainerError> {
                Ok(self.len()? == 0)
            }

            /// What is in it.
            pub fn stats(&self) -> Result<$crate::SlabHashStats, $crate::ContainerError> {
                self.body.stats()
            }

            /// Looks at every cell: each is empty or has a key of its bucket, none lies behind an empty one, and none has a key that another has, unless
            /// keys may have several values; chains end and do not cross, their slabs are all that are taken, and the counts are exact.
            ///
            /// # Errors
            /// [`ContainerError::Inconsistent`](crate::ContainerError::Inconsistent) with what is not so.
            pub fn verify(&self) -> Result<(), $crate::ContainerError> {
                self.body.verify()
            }

            #[doc = concat!(
                "The table for the parameters of a kernel of one's own, which uses it as `", $in_kernels, "`, or `128` for slabs of 128 bytes; ", $wide,
                ". Kernels that store ", $held, " can be answered [`Full`](crate::SlabAnswer::Full): [`reserve`](Self::reserve) more before.",
            )]
            ///
            /// # Errors
            /// If it is on the CPU.
            pub fn reference(&self) -> Result<$crate::SlabTableRef, $crate::ContainerError> {
                self.body.reference()
            }

            /// Runs a batch in device memory after what is in the stream, and waits for it.
            ///
            /// # Errors
            #[doc = concat!("If a buffer is too short or of another device, or the ", $noun, " is on the CPU, before anything is changed.")]
            pub fn apply_on(
                &mut self,
                ops: $crate::DeviceSlabOps<'_>,
                answers: $crate::DeviceSlabAnswers<'_>,
                stream: &::warpkeep_device::Stream,
            ) -> Result<(), $crate::ContainerError> {
                self.body.apply_on(&ops, answers, stream)
            }

            /// Starts a search for keys in device memory after what is in the stream, and gives the event of its end without waiting.
            ///
            /// # Errors
            /// As [`apply_on`](Self::apply_on).
            ///
            /// # Safety
            #[doc = concat!(
                "Until the event is reached, no other code uses the buffers, except to read the keys, and the ", $noun, " is neither changed nor dropped.",
            )]
            pub unsafe fn enqueue_search(
                &self,
                keys: &::warpkeep_device::Buffer,
                count: usize,
                answers: $crate::DeviceSlabAnswers<'_>,
                stream: &::warpkeep_device::Stream,
            ) -> Result<::warpkeep_device::Event, $crate::ContainerError> {
                // SAFETY: this function's contract.
                unsafe { self.body.enqueue_search(keys, count, answers, stream) }
            }

            #[doc = concat!("Makes room for this many ", $held, " in all, so that no batch has to until then.")]
            ///
            /// # Errors
            #[doc = concat!("If there is no memory for it; the ", $noun, " is then as it was.")]
            pub fn reserve(&mut self, count: u64) -> Result<(), $crate::ContainerError> {
                self.body.reserve(count)
            }

            #[doc = concat!("Packs the ", $held, " of all chains, without tombstones, and gives slabs back. Needs no memory.")]
            pub fn flush(&mut self) -> Result<(), $crate::ContainerError> {
                self.body.flush()
            }

            #[doc = concat!("Removes all ", $held, ". Buckets stay.")]
            pub fn clear(&mut self) -> Result<(), $crate::ContainerError> {
                self.body.clear()
            }

            #[doc = concat!("Writes all ", $held, " to a file, with checksums. The file is written under another name beside it,")]
            /// made durable and renamed, so after a crash there is the old file or the new one.
            pub fn save(&self, path: impl AsRef<::std::path::Path>) -> Result<(), $crate::ContainerError> {
                self.body.save(path.as_ref(), $kind)
            }

            #[doc = concat!("A ", $noun, " in device memory with the ", $held, " of a file.")]
            ///
            /// # Errors
            /// [`ContainerError::Damaged`](crate::ContainerError::Damaged) if a byte differs from what was saved, or
            #[doc = concat!(
                "[`ContainerError::WrongKind`](crate::ContainerError::WrongKind) if another container or other widths were saved; there is no ", $noun, " then.",
            )]
            pub fn load(
                device: &::warpkeep_device::Device,
                path: impl AsRef<::std::path::Path>,
                options: $crate::SlabHashOptions,
            ) -> Result<Self, $crate::ContainerError> {
                let body = <$body>::load(Some(device), path.as_ref(), $kind, options, $unique)?;
                Ok(Self { body })
            }

            #[doc = concat!("A ", $noun, " on the CPU with the ", $held, " of a file.")]
            ///
            /// # Errors
            /// As [`load`](Self::load).
            pub fn load_on_cpu(
                path: impl AsRef<::std::path::Path>,
                options: $crate::SlabHashOptions,
            ) -> Result<Self, $crate::ContainerError> {
                Ok(Self { body: <$body>::load(None, path.as_ref(), $kind, options, $unique)? })
            }
        }
    };
}

pub(super) use common_calls;

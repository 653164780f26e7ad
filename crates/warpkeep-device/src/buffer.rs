//! Device memory.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::{NoUninit, Pod};

use crate::backend::RawStream;
use crate::budget::Charge;
use crate::choice::DeviceChoice;
use crate::device::{Core, Device};
use crate::error::{DeviceError, Result};
use crate::pointer::DevicePtr;
use crate::stream::Stream;

/// Bytes in device memory, freed when this is dropped.
///
/// Calls without a stream are done when they return. They do not wait for work in streams: synchronise the stream first, or use
/// the form that takes it. Calls that take a stream happen after what is in it; those that read or write host memory
/// return when that memory may be used again.
///
/// ```
/// # use warpkeep_device::{Device, DeviceChoice};
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// # let device = Device::open(DeviceChoice::Sim)?;
/// let buffer = device.allocate_zeroed(4 * 8)?;
/// buffer.write(8, &[5u64, 6])?;
/// let words = buffer.view::<u64>()?;
/// words.set(3, 7)?;
/// assert_eq!(words.to_vec()?, [0, 5, 6, 7]);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct Buffer {
    core: Arc<Core>,
    at: DevicePtr,
    bytes: usize,
    /// Whether it is freed here; otherwise the memory belongs to a [`GrowingBuffer`](crate::GrowingBuffer).
    is_owned: bool,
    // Gives the bytes back to the budget.
    _charge: Charge,
}

impl Buffer {
    pub(crate) fn new(core: Arc<Core>, bytes: usize, charge: Charge) -> Result<Self> {
        // Drivers refuse to allocate nothing; an empty buffer is still a useful thing to have.
        let at = if bytes == 0 { DevicePtr::NULL } else { core.backend.allocate(bytes as u64)? };
        Ok(Self { core, at, bytes, is_owned: bytes > 0, _charge: charge })
    }

    /// An empty buffer at an address that the caller has reserved and keeps for longer than the buffer.
    pub(crate) fn borrowed(core: Arc<Core>, at: DevicePtr, charge: Charge) -> Self {
        Self { core, at, bytes: 0, is_owned: false, _charge: charge }
    }

    /// Has at least `bytes` bytes, which the caller has mapped.
    pub(crate) fn lengthen(&mut self, bytes: usize) {
        self.bytes = self.bytes.max(bytes);
    }

    /// Where it lies, for a kernel's parameters.
    pub fn ptr(&self) -> DevicePtr {
        self.at
    }

    /// The device whose memory it is.
    pub fn choice(&self) -> DeviceChoice {
        self.core.info.choice
    }

    /// An error unless it is memory of this device. `what` names it in the message.
    pub fn check_device(&self, device: &Device, what: &'static str) -> Result<()> {
        device.core.same(&self.core, what)
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Writes elements from the byte `offset` on.
    pub fn write<T: NoUninit>(&self, offset: usize, elements: &[T]) -> Result<()> {
        self.write_through(offset, elements, self.core.backend.own_stream())
    }

    /// As [`write`](Self::write), after what is in the stream.
    pub fn write_on<T: NoUninit>(&self, offset: usize, elements: &[T], stream: &Stream) -> Result<()> {
        stream.belongs_to(&self.core)?;
        self.write_through(offset, elements, stream.raw)
    }

    fn write_through<T: NoUninit>(&self, offset: usize, elements: &[T], stream: RawStream) -> Result<()> {
        // SAFETY: the stream is waited for while the slice is borrowed.
        unsafe { self.start_write(offset, elements, stream)? };
        self.core.backend.synchronize(stream)
    }

    /// As [`write_on`](Self::write_on), and returns at once. Only from pinned or registered memory is it really behind the program.
    ///
    /// # Safety
    /// `elements` must stay where they are, unchanged, until the stream has been synchronised.
    pub unsafe fn write_behind<T: NoUninit>(
        &self,
        offset: usize,
        elements: &[T],
        stream: &Stream,
    ) -> Result<()> {
        stream.belongs_to(&self.core)?;
        // SAFETY: as this function's contract says.
        unsafe { self.start_write(offset, elements, stream.raw) }
    }

    /// # Safety
    /// As `write_behind`.
    unsafe fn start_write<T: NoUninit>(
        &self,
        offset: usize,
        elements: &[T],
        stream: RawStream,
    ) -> Result<()> {
        let from: &[u8] = bytemuck::cast_slice(elements);
        let to = self.range("write", offset, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: the target lies in this buffer; the source is the caller's promise.
        unsafe { self.core.backend.copy_in(to, from.as_ptr(), from.len(), stream) }
    }

    /// Reads elements from the byte `offset` on.
    pub fn read<T: Pod>(&self, offset: usize, elements: &mut [T]) -> Result<()> {
        self.read_through(offset, elements, self.core.backend.own_stream())
    }

    /// As [`read`](Self::read), after what is in the stream.
    pub fn read_on<T: Pod>(&self, offset: usize, elements: &mut [T], stream: &Stream) -> Result<()> {
        stream.belongs_to(&self.core)?;
        self.read_through(offset, elements, stream.raw)
    }

    fn read_through<T: Pod>(&self, offset: usize, elements: &mut [T], stream: RawStream) -> Result<()> {
        // SAFETY: the stream is waited for while the slice is borrowed.
        unsafe { self.start_read(offset, elements, stream)? };
        self.core.backend.synchronize(stream)
    }

    /// As [`read_on`](Self::read_on), and returns at once. Only into pinned or registered memory is it really behind the program.
    ///
    /// # Safety
    /// `elements` must stay where they are, and not be looked at, until the stream has been synchronised.
    pub unsafe fn read_behind<T: Pod>(
        &self,
        offset: usize,
        elements: &mut [T],
        stream: &Stream,
    ) -> Result<()> {
        stream.belongs_to(&self.core)?;
        // SAFETY: as this function's contract says.
        unsafe { self.start_read(offset, elements, stream.raw) }
    }

    /// # Safety
    /// As `read_behind`.
    unsafe fn start_read<T: Pod>(&self, offset: usize, elements: &mut [T], stream: RawStream) -> Result<()> {
        let to: &mut [u8] = bytemuck::cast_slice_mut(elements);
        let from = self.range("read", offset, to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: the source lies in this buffer; the target is the caller's promise.
        unsafe { self.core.backend.copy_out(to.as_mut_ptr(), from, to.len(), stream) }
    }

    /// All of it, as elements.
    pub fn to_vec<T: Pod>(&self) -> Result<Vec<T>> {
        self.view::<T>()?.to_vec()
    }

    /// Sets every byte.
    pub fn fill(&self, byte: u8) -> Result<()> {
        self.fill_range(0, self.bytes, byte)
    }

    /// Sets `bytes` bytes from `offset` on.
    pub fn fill_range(&self, offset: usize, bytes: usize, byte: u8) -> Result<()> {
        let stream = self.core.backend.own_stream();
        self.start_fill(offset, bytes, byte, stream)?;
        self.core.backend.synchronize(stream)
    }

    /// Sets `bytes` bytes from `offset` on, after what is in the stream; returns at once.
    pub fn fill_on(&self, offset: usize, bytes: usize, byte: u8, stream: &Stream) -> Result<()> {
        stream.belongs_to(&self.core)?;
        self.start_fill(offset, bytes, byte, stream.raw)
    }

    fn start_fill(&self, offset: usize, bytes: usize, byte: u8, stream: RawStream) -> Result<()> {
        let at = self.range("fill", offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range lies in this buffer, and freeing device memory waits for the device.
        unsafe { self.core.backend.fill(at, byte, bytes, stream) }
    }

    /// Copies `bytes` bytes of another buffer of the same device here.
    pub fn copy_from(&self, offset: usize, other: &Self, other_offset: usize, bytes: usize) -> Result<()> {
        let stream = self.core.backend.own_stream();
        self.start_copy(offset, other, other_offset, bytes, stream)?;
        self.core.backend.synchronize(stream)
    }

    /// As [`copy_from`](Self::copy_from), after what is in the stream; returns at once.
    pub fn copy_from_on(
        &self,
        offset: usize,
        other: &Self,
        other_offset: usize,
        bytes: usize,
        stream: &Stream,
    ) -> Result<()> {
        stream.belongs_to(&self.core)?;
        self.start_copy(offset, other, other_offset, bytes, stream.raw)
    }

    fn start_copy(
        &self,
        at: usize,
        other: &Self,
        from: usize,
        bytes: usize,
        stream: RawStream,
    ) -> Result<()> {
        self.core.same(&other.core, "a buffer")?;
        let (to, source) = (self.range("copy", at, bytes)?, other.range("copy", from, bytes)?);
        if std::ptr::eq(self, other) && at.abs_diff(from) < bytes {
            return Err(DeviceError::Call {
                call: "copy",
                code: "overlap".to_owned(),
                text: "source and target overlap".to_owned(),
                advice: "copy through a second buffer",
            });
        }
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges lie in live buffers and do not overlap, and freeing device memory waits for the device.
        unsafe { self.core.backend.copy(to, source, bytes, stream) }
    }

    /// The buffer as elements of one type.
    pub fn view<T: Pod>(&self) -> Result<View<'_, T>> {
        let element = size_of::<T>();
        if element == 0 || !self.bytes.is_multiple_of(element) {
            return Err(DeviceError::NotWholeElements { size: self.bytes as u64, element: element as u64 });
        }
        Ok(View { buffer: self, element: PhantomData })
    }

    fn range(&self, what: &'static str, offset: usize, len: usize) -> Result<DevicePtr> {
        if offset.checked_add(len).is_none_or(|end| end > self.bytes) {
            let (offset, len, size) = (offset as u64, len as u64, self.bytes as u64);
            return Err(DeviceError::OutOfBounds { what, offset, len, size });
        }
        Ok(self.at.offset(offset as u64))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.is_owned {
            self.core.backend.free(self.at, self.bytes as u64);
        }
    }
}

/// A [`Buffer`] as elements of one type: offsets and lengths count elements.
#[derive(Debug, Clone, Copy)]
pub struct View<'a, T> {
    buffer: &'a Buffer,
    element: PhantomData<T>,
}

impl<T: Pod> View<'_, T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.buffer.bytes / size_of::<T>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the element `index` lies, for a kernel's parameters; `index` can be the length.
    pub fn ptr(&self, index: usize) -> Result<DevicePtr> {
        self.buffer.range("ptr", Self::offset(index), 0)
    }

    /// The element `index`.
    pub fn get(&self, index: usize) -> Result<T> {
        let mut element = [T::zeroed()];
        self.read(index, &mut element)?;
        Ok(element[0])
    }

    /// Changes the element `index`.
    pub fn set(&self, index: usize, element: T) -> Result<()> {
        self.write(index, &[element])
    }

    /// Reads elements from the element `index` on.
    pub fn read(&self, index: usize, elements: &mut [T]) -> Result<()> {
        self.buffer.read(Self::offset(index), elements)
    }

    /// Writes elements from the element `index` on.
    pub fn write(&self, index: usize, elements: &[T]) -> Result<()> {
        self.buffer.write(Self::offset(index), elements)
    }

    /// All elements.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut elements = vec![T::zeroed(); self.len()];
        self.read(0, &mut elements)?;
        Ok(elements)
    }

    /// An index too large for its byte offset to be counted is out of bounds all the same.
    fn offset(index: usize) -> usize {
        index.saturating_mul(size_of::<T>())
    }
}

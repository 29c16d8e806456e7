// fake_device.cc with one device that misbehaves.
//
// FAKE_FAULT: WHAT:N, where device N hangs, stops (without a thread left that could notice), crashes, lies (what is
// copied to it changes), is slow (16 MB/s), or loses what its peers send (peer).
#define InitPlugin InitSound
#include "../../launch/fake_device.cc"
#undef InitPlugin

#include <csignal>

namespace {

bool is(const char* what, const C_Device device) {
  const std::string asked = setting("FAKE_FAULT", "");
  return asked == std::string(what) + ":" + std::to_string(device->id);
}

void misbehave(const C_Device device, size_t size) {
  if (is("hang", device)) while (true) nap();
  if (is("stop", device)) raise(SIGSTOP);
  if (is("crash", device)) raise(SIGSEGV);
  if (is("slow", device)) usleep(size >> 4);
}

void change(void* at, size_t size) {
  if (size >= 4096) static_cast<unsigned char*>(at)[size / 2 + 3] ^= 0x40;  // an exponent's bit
}

C_Status to_device(const C_Device device, void* to, const void* from, size_t size) {
  misbehave(device, size);
  std::memmove(to, from, size);
  if (is("lie", device)) change(to, size);
  return C_SUCCESS;
}
C_Status to_device_later(const C_Device device, C_Stream, void* to, const void* from, size_t size) {
  return to_device(device, to, from, size);
}
C_Status from_device(const C_Device device, void* to, const void* from, size_t size) {
  misbehave(device, size);
  std::memmove(to, from, size);
  return C_SUCCESS;
}
C_Status from_device_later(const C_Device device, C_Stream, void* to, const void* from, size_t size) {
  return from_device(device, to, from, size);
}
C_Status over(const C_Device to_whom, const C_Device from_whom, void* to, const void* from, size_t size) {
  std::memmove(to, from, size);
  if (is("peer", to_whom) || is("peer", from_whom)) change(to, size);
  return C_SUCCESS;
}
C_Status over_later(const C_Device a, const C_Device b, C_Stream, void* to, const void* from, size_t size) {
  return over(a, b, to, from, size);
}

}  // namespace

extern "C" void InitPlugin(CustomRuntimeParams* params) {
  InitSound(params);
  C_DeviceInterface& f = *params->interface;
  f.memory_copy_h2d = to_device;
  f.memory_copy_d2h = from_device;
  f.async_memory_copy_h2d = to_device_later;
  f.async_memory_copy_d2h = from_device_later;
  f.memory_copy_p2p = over;
  f.async_memory_copy_p2p = over_later;
}

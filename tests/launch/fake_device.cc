// A paddle device of a given type without a card, for tests: its memory is the host's, kernels fall back to the CPU,
// and its collectives go through one shared file.  Written against the public header in paddle's wheel.
//
//   g++ -std=c++17 -O1 -shared -fPIC -DDEVICE_TYPE='"npu"' -I SITE/paddle/include fake_device.cc -o libfake.so
//
// FAKE_DEVICES: how many there are (2).  FAKE_FOLDER: where the shared files go (/dev/shm).
// FAKE_SILENT: collectives return without doing anything, as a broken backend does.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "paddle/phi/backends/device_ext.h"

namespace {

std::string setting(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

size_t devices() { return std::strtoul(setting("FAKE_DEVICES", "2").c_str(), nullptr, 10); }

thread_local int selected = 0;

// ---- one slot per rank in a file that all ranks map, and behind them a letter box for each rank's words to each other

constexpr size_t kSlot = 1 << 20;
constexpr size_t kLetter = 1 << 18;

struct Shared {
  std::atomic<uint32_t> waiting;
  std::atomic<uint32_t> round;
};

struct Box {
  std::atomic<uint32_t> full;
  char words[kLetter];
};

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

struct Group {
  size_t ranks, rank;
  Shared* shared;
  char* slots;

  char* slot(size_t of) const { return slots + of * kSlot; }
  Box& box(size_t from, size_t to) const {
    return reinterpret_cast<Box*>(slots + ranks * kSlot)[from * ranks + to];
  }

  // All ranks arrive before any leaves: the last one to come opens the next round.
  void gather() const {
    const uint32_t mine = shared->round.load();
    if (shared->waiting.fetch_add(1) + 1 == ranks) {
      shared->waiting.store(0);
      shared->round.fetch_add(1);
      return;
    }
    while (shared->round.load() == mine) nap();
  }
};

Group* group_of(C_CCLComm comm) { return reinterpret_cast<Group*>(comm); }

size_t width(C_DataType type) {
  switch (type) {
    case BOOL: case INT8: case UINT8: return 1;
    case INT16: case UINT16: case FLOAT16: case BFLOAT16: return 2;
    case INT32: case UINT32: case FLOAT32: return 4;
    case INT64: case UINT64: case FLOAT64: case COMPLEX64: return 8;
    case COMPLEX128: return 16;
    default: return 0;
  }
}

template <typename T>
void fold(const Group& group, void* to, size_t count, C_CCLReduceOp op) {
  T* out = static_cast<T*>(to);
  for (size_t i = 0; i < count; ++i) {
    T all = reinterpret_cast<T*>(group.slot(0))[i];
    for (size_t rank = 1; rank < group.ranks; ++rank) {
      const T next = reinterpret_cast<T*>(group.slot(rank))[i];
      if (op == SUM || op == AVG) all += next;
      if (op == PRODUCT) all *= next;
      if ((op == MAX && next > all) || (op == MIN && next < all)) all = next;
    }
    out[i] = op == AVG ? static_cast<T>(all / static_cast<T>(group.ranks)) : all;
  }
}

bool fold_any(const Group& group, void* to, size_t count, C_DataType type, C_CCLReduceOp op) {
  switch (type) {
    case FLOAT32: fold<float>(group, to, count, op); return true;
    case FLOAT64: fold<double>(group, to, count, op); return true;
    case INT32: fold<int32_t>(group, to, count, op); return true;
    case INT64: fold<int64_t>(group, to, count, op); return true;
    default: return false;
  }
}

// Every collective: a piece into one's slot, all meet, everybody takes what it wants, all meet again.
C_Status exchange(const Group& group, const void* from, size_t count, size_t each,
                  const std::function<bool(size_t begin, size_t size)>& take) {
  if (each == 0) return C_ERROR;
  if (std::getenv("FAKE_SILENT") != nullptr) return C_SUCCESS;
  bool good = true;
  const size_t most = kSlot / each;
  for (size_t begin = 0; begin < count; begin += most) {
    const size_t size = count - begin < most ? count - begin : most;
    std::memcpy(group.slot(group.rank), static_cast<const char*>(from) + begin * each, size * each);
    group.gather();
    good = take(begin, size) && good;
    group.gather();
  }
  return good ? C_SUCCESS : C_FAILED;
}

C_Status all_reduce(void* from, void* to, size_t count, C_DataType type, C_CCLReduceOp op, C_CCLComm comm, C_Stream) {
  const Group& group = *group_of(comm);
  const size_t each = width(type);
  return exchange(group, from, count, each, [&](size_t begin, size_t size) {
    return fold_any(group, static_cast<char*>(to) + begin * each, size, type, op);
  });
}

C_Status broadcast(void* data, size_t count, C_DataType type, size_t root, C_CCLComm comm, C_Stream) {
  const Group& group = *group_of(comm);
  const size_t each = width(type);
  return exchange(group, data, count, each, [&](size_t begin, size_t size) {
    std::memcpy(static_cast<char*>(data) + begin * each, group.slot(root), size * each);
    return true;
  });
}

C_Status all_gather(void* from, void* to, size_t count, C_DataType type, C_CCLComm comm, C_Stream) {
  const Group& group = *group_of(comm);
  const size_t each = width(type);
  return exchange(group, from, count, each, [&](size_t begin, size_t size) {
    for (size_t rank = 0; rank < group.ranks; ++rank)
      std::memcpy(static_cast<char*>(to) + (rank * count + begin) * each, group.slot(rank), size * each);
    return true;
  });
}

C_Status reduce(void* from, void* to, size_t count, C_DataType type, C_CCLReduceOp op, size_t root, C_CCLComm comm,
                C_Stream) {
  const Group& group = *group_of(comm);
  const size_t each = width(type);
  return exchange(group, from, count, each, [&](size_t begin, size_t size) {
    return group.rank != root || fold_any(group, static_cast<char*>(to) + begin * each, size, type, op);
  });
}

// `count` elements for each rank.
C_Status reduce_scatter(void* from, void* to, size_t count, C_DataType type, C_CCLReduceOp op, C_CCLComm comm,
                        C_Stream stream) {
  const Group& group = *group_of(comm);
  std::string all(group.ranks * count * width(type), 0);
  const C_Status done = all_reduce(from, all.data(), group.ranks * count, type, op, comm, stream);
  std::memcpy(to, all.data() + group.rank * count * width(type), count * width(type));
  return done;
}

// A letter waits in its box until it is fetched: who sends first and then receives meets one who does the same.
C_Status send(void* from, size_t count, C_DataType type, size_t to, C_CCLComm comm, C_Stream) {
  const Group& group = *group_of(comm);
  Box& box = group.box(group.rank, to);
  const size_t all = count * width(type);
  for (size_t at = 0; at < all; at += kLetter) {
    while (box.full.load() != 0) nap();
    std::memcpy(box.words, static_cast<char*>(from) + at, all - at < kLetter ? all - at : kLetter);
    box.full.store(1);
  }
  return C_SUCCESS;
}

C_Status receive(void* to, size_t count, C_DataType type, size_t from, C_CCLComm comm, C_Stream) {
  const Group& group = *group_of(comm);
  Box& box = group.box(from, group.rank);
  const size_t all = count * width(type);
  for (size_t at = 0; at < all; at += kLetter) {
    while (box.full.load() == 0) nap();
    std::memcpy(static_cast<char*>(to) + at, box.words, all - at < kLetter ? all - at : kLetter);
    box.full.store(0);
  }
  return C_SUCCESS;
}

C_Status id_size(size_t* size) {
  *size = 64;
  return C_SUCCESS;
}

C_Status new_id(C_CCLRootId* id) {
  std::memset(id->data, 0, id->sz);
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::snprintf(static_cast<char*>(id->data), id->sz, "fake-%d-%lld", getpid(), static_cast<long long>(now));
  return C_SUCCESS;
}

// Whoever comes first makes the file; it is born as zeros, which is what the counters begin with.
C_Status join(size_t ranks, C_CCLRootId* id, size_t rank, C_CCLComm* comm) {
  const std::string path = setting("FAKE_FOLDER", "/dev/shm") + "/" + static_cast<char*>(id->data);
  const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  const size_t size = 4096 + ranks * kSlot + ranks * ranks * sizeof(Box);  // pages that nobody touches take no memory
  if (file < 0 || ftruncate(file, size) != 0) return C_FAILED;
  char* at = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  close(file);
  if (at == MAP_FAILED) return C_FAILED;
  auto* group = new Group{ranks, rank, reinterpret_cast<Shared*>(at), at + 4096};
  group->gather();
  if (rank == 0) unlink(path.c_str());
  *comm = reinterpret_cast<C_CCLComm>(group);
  return C_SUCCESS;
}

C_Status leave(C_CCLComm comm) {
  delete group_of(comm);
  return C_SUCCESS;
}

C_Status comm_name(C_CCLComm, char* name) {
  std::strcpy(name, "fake");
  return C_SUCCESS;
}

// ---- the device itself: everything has happened by the time the call returns

C_Status fine() { return C_SUCCESS; }

template <typename Handle>
C_Status create(const C_Device, Handle* handle) {
  *handle = reinterpret_cast<Handle>(new char);
  return C_SUCCESS;
}
template <typename Handle>
C_Status destroy(const C_Device, Handle handle) {
  delete reinterpret_cast<char*>(handle);
  return C_SUCCESS;
}

C_Status select_device(const C_Device device) { selected = device->id; return C_SUCCESS; }
C_Status which_device(const C_Device device) { device->id = selected; return C_SUCCESS; }
C_Status call(const C_Device device, C_Stream stream, C_Callback back, void* data) {
  C_Status status = C_SUCCESS;
  back(device, stream, data, &status);
  return status;
}
C_Status allocate(const C_Device, void** at, size_t size) {
  *at = std::malloc(size);
  return *at != nullptr ? C_SUCCESS : C_FAILED;
}
C_Status release(const C_Device, void* at, size_t) { std::free(at); return C_SUCCESS; }
C_Status fill(const C_Device, void* at, unsigned char value, size_t size) { std::memset(at, value, size); return C_SUCCESS; }
C_Status copy(const C_Device, void* to, const void* from, size_t size) { std::memmove(to, from, size); return C_SUCCESS; }
C_Status copy_later(const C_Device, C_Stream, void* to, const void* from, size_t size) { std::memmove(to, from, size); return C_SUCCESS; }
C_Status copy_over(const C_Device, const C_Device, void* to, const void* from, size_t size) { std::memmove(to, from, size); return C_SUCCESS; }
C_Status copy_over_later(const C_Device, const C_Device, C_Stream, void* to, const void* from, size_t size) { std::memmove(to, from, size); return C_SUCCESS; }

C_Status how_many(size_t* count) { *count = devices(); return C_SUCCESS; }
C_Status list(size_t* ids) {
  for (size_t i = 0; i < devices(); ++i) ids[i] = i;
  return C_SUCCESS;
}
C_Status memory(const C_Device, size_t* total, size_t* left) { *total = *left = size_t{32} << 30; return C_SUCCESS; }
C_Status smallest(const C_Device, size_t* size) { *size = 256; return C_SUCCESS; }
C_Status version(const C_Device, size_t* number) { *number = 1; return C_SUCCESS; }

}  // namespace

extern "C" void InitPlugin(CustomRuntimeParams* params) {
  PADDLE_CUSTOM_RUNTIME_CHECK_VERSION(params);
  params->device_type = const_cast<char*>(DEVICE_TYPE);
  params->sub_device_type = const_cast<char*>("fake");
  C_DeviceInterface& f = *params->interface;
  std::memset(static_cast<void*>(&f), 0, sizeof(f));
  f.size = sizeof(f);
  f.initialize = f.finalize = fine;
  f.init_device = f.deinit_device = f.synchronize_device = [](const C_Device) { return C_SUCCESS; };
  f.set_device = select_device;
  f.get_device = which_device;
  f.create_stream = create<C_Stream>;
  f.destroy_stream = destroy<C_Stream>;
  f.query_stream = f.synchronize_stream = [](const C_Device, C_Stream) { return C_SUCCESS; };
  f.stream_add_callback = call;
  f.create_event = create<C_Event>;
  f.destroy_event = destroy<C_Event>;
  f.query_event = f.synchronize_event = [](const C_Device, C_Event) { return C_SUCCESS; };
  f.record_event = f.stream_wait_event = [](const C_Device, C_Stream, C_Event) { return C_SUCCESS; };
  f.device_memory_allocate = f.host_memory_allocate = f.unified_memory_allocate = allocate;
  f.device_memory_deallocate = f.host_memory_deallocate = f.unified_memory_deallocate = release;
  f.device_memory_set = fill;
  f.memory_copy_h2d = f.memory_copy_d2h = f.memory_copy_d2d = copy;
  f.async_memory_copy_h2d = f.async_memory_copy_d2h = f.async_memory_copy_d2d = copy_later;
  f.memory_copy_p2p = copy_over;
  f.async_memory_copy_p2p = copy_over_later;
  f.get_device_count = how_many;
  f.get_device_list = list;
  f.device_memory_stats = memory;
  f.device_min_chunk_size = smallest;
  f.get_runtime_version = f.get_driver_version = version;
  f.xccl_get_comm_name = comm_name;
  f.xccl_get_unique_id_size = id_size;
  f.xccl_get_unique_id = new_id;
  f.xccl_comm_init_rank = join;
  f.xccl_destroy_comm = leave;
  f.xccl_all_reduce = all_reduce;
  f.xccl_broadcast = broadcast;
  f.xccl_all_gather = all_gather;
  f.xccl_reduce = reduce;
  f.xccl_reduce_scatter = reduce_scatter;
  f.xccl_send = send;
  f.xccl_recv = receive;
  f.xccl_group_start = f.xccl_group_end = fine;
}

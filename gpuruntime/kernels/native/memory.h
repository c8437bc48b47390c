// Memory in huge pages, for the buffers of a step: walks of the page table cost more than the reads themselves.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

template <class T>
struct HugeAllocator {
    using value_type = T;
    static constexpr size_t kPage = size_t(2) << 20;

    HugeAllocator() = default;
    template <class U>
    HugeAllocator(const HugeAllocator<U>&) {}

    T* allocate(size_t n) {
        const size_t bytes = n * sizeof(T), alignment = bytes < kPage / 2 ? 64 : kPage;
        void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
        if (alignment == kPage) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
        return static_cast<T*>(memory);
    }
    void deallocate(T* memory, size_t) { std::free(memory); }

    template <class U>
    bool operator==(const HugeAllocator<U>&) const { return true; }
};

template <class T>
using Buffer = std::vector<T, HugeAllocator<T>>;

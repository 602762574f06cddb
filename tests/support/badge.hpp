// Connectors with a number: each resource remembers its connector, and each violation is counted.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace support {

/// Counts connectors, resources and violations.
struct ledger {
    std::atomic<int> begun{0};        // connectors created
    std::atomic<int> ended{0};        // connectors destroyed
    std::atomic<int> ended_early{0};  // connectors destroyed during a call or before a resource
    std::atomic<int> foreign{0};      // calls with a resource of another connector
    std::atomic<int> overlaps{0};     // calls with a resource in use
    std::atomic<int> opened{0};
    std::atomic<int> closed{0};
    std::atomic<int> destroyed{0};

    int present() const { return opened - destroyed; }
    int crimes() const { return ended_early + foreign + overlaps; }
};

/// The identity of a connector, which moves with it.
class badge {
public:
    badge(ledger& to, int mine) : number(mine), book(to) { ++book.begun; }
    badge(const badge&) = delete;
    badge& operator=(const badge&) = delete;
    ~badge() {
        if (calls != 0 || resources != 0) ++book.ended_early;
        ++book.ended;
    }

    const int number;
    ledger& book;
    std::atomic<int> calls{0};
    std::atomic<int> resources{0};
};

/// A resource that knows its connector.
class made {
public:
    explicit made(badge& maker)
        : by(maker.number), maker_(&maker), busy_(std::make_unique<std::atomic<bool>>(false)) {
        ++maker.resources;
        ++maker.book.opened;
    }
    made(made&& other) noexcept
        : by(other.by),
          maker_(std::exchange(other.maker_, nullptr)),
          busy_(std::move(other.busy_)) {}
    made& operator=(made&&) = delete;
    ~made() {
        if (maker_ == nullptr) return;
        ++maker_->book.destroyed;
        --maker_->resources;
    }

    /// Claims the resource; an overlapping claim is counted.
    class claim {
    public:
        explicit claim(made& m) : of_(m) {
            if (of_.busy_->exchange(true)) ++of_.maker_->book.overlaps;
        }
        ~claim() { of_.busy_->store(false); }
        claim(const claim&) = delete;
        claim& operator=(const claim&) = delete;

    private:
        made& of_;
    };
    claim use() { return claim(*this); }
    /// Detaches the resource from its connector, which may then be destroyed.
    void leave() {
        if (maker_ == nullptr) return;
        ++maker_->book.destroyed;
        --std::exchange(maker_, nullptr)->resources;
    }

    const int by;

private:
    badge* maker_;
    std::unique_ptr<std::atomic<bool>> busy_;
};

/// Only opens and closes resources. Move-only.
class badged {
public:
    badged(ledger& book, int number) : badge_(std::make_unique<badge>(book, number)) {}

    made open() {
        call here(*badge_);
        return made(*badge_);
    }
    void close(made& m) {
        verb(m);
        ++badge_->book.closed;
    }

protected:
    struct call {
        explicit call(badge& b) : of(b) { ++of.calls; }
        ~call() { --of.calls; }
        call(const call&) = delete;
        call& operator=(const call&) = delete;
        badge& of;
    };

    bool verb(made& m) {
        call here(*badge_);
        auto claim = m.use();
        if (m.by != badge_->number) ++badge_->book.foreign;
        return true;
    }

    std::unique_ptr<badge> badge_;
};

/// Has all optional calls of a connector.
class able_badged : public badged {
public:
    using badged::badged;

    bool probe(made& m) { return verb(m); }
    bool reset(made& m) { return verb(m); }
    bool before_acquire(made& m) { return verb(m); }
    bool before_release(made& m) { return verb(m); }
};

}  // namespace support

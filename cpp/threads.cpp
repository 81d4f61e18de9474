// The thread pool of the process. It replaces OpenMP's threads, which spin while they wait, and for which a caller waits
// even if they have not begun: on a busy computer this costs far more than the threads gain.
#include "threads.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "bindings.hpp"

namespace dimargin {
namespace {

struct Job {
    void (*work)(void*);
    void* context;
    int wanted;       // number of helpers that may still begin
    bool is_errand;   // An errand starts no thread, and its helper does not count as working.
    int working = 0;  // number of helpers that have begun and not ended
};

class Helpers {
public:
    void share(Job& job) {
        const int n_helpers = job.wanted;
        {
            const std::lock_guard lock(mutex);
            jobs.push_back(&job);
            wanted += n_helpers;
            while (n_threads - n_working < wanted && start()) {
            }
        }
        for (int i = 0; i < n_helpers; ++i) posted.notify_one();
        job.work(job.context);
        std::unique_lock lock(mutex);
        wanted -= job.wanted;
        take_back(job);
        ended.wait(lock, [&] { return !job.working; });
    }

    void post(Job& errand) {
        const std::lock_guard lock(mutex);
        jobs.insert(jobs.begin(), &errand);
    }

    bool reclaim(Job& errand) {
        std::unique_lock lock(mutex);
        if (take_back(errand)) return true;
        ended.wait(lock, [&] { return !errand.working; });
        return false;
    }

private:
    // Withdraws a job, and returns whether it was still waiting for helpers.
    bool take_back(Job& job) {
        if (!job.wanted) return false;
        job.wanted = 0;
        const auto place = std::find(jobs.begin(), jobs.end(), &job);
        if (place != jobs.end()) jobs.erase(place);  // In a forked child the list is new and lacks the job.
        return true;
    }

    // If the system allows no more threads, the existing ones do the work.
    bool start() {
        try {
            std::thread([this] { help(); }).detach();
        } catch (const std::system_error&) {
            return false;
        }
        ++n_threads;
        return true;
    }

    [[noreturn]] void help() {
        std::unique_lock lock(mutex);
        for (;;) {
            posted.wait(lock, [&] { return !jobs.empty(); });
            Job& job = *jobs.front();
            const int counts = job.is_errand ? 0 : 1;
            wanted -= counts;
            if (--job.wanted == 0) jobs.erase(jobs.begin());
            ++job.working;
            n_working += counts;
            lock.unlock();
            job.work(job.context);
            lock.lock();
            n_working -= counts;
            if (--job.working == 0) ended.notify_all();
        }
    }

    std::mutex mutex;
    std::condition_variable posted, ended;
    std::vector<Job*> jobs;  // jobs that wait for helpers: first errands, then the others, oldest first
    int n_threads = 0, n_working = 0, wanted = 0;
};

// The pool is never destroyed, because its threads wait until the process ends.
Helpers* helpers = nullptr;

}  // namespace

void share(int n_threads, void (*work)(void*), void* context) {
    if (n_threads <= 1) return work(context);
    Job job{work, context, n_threads - 1, false};
    helpers->share(job);
}

void post(Errand& errand) {
    const auto job = new Job{errand.work, errand.context, 1, true};
    errand.posted = job;
    helpers->post(*job);
}

bool reclaim(Errand& errand) {
    const std::unique_ptr<Job> job(static_cast<Job*>(errand.posted));
    errand.posted = nullptr;
    return !job || helpers->reclaim(*job);
}

void prepare_threads() {
    helpers = new Helpers;
    // A forked child has none of its parent's threads, and perhaps a lock that nobody will release.
    pthread_atfork(nullptr, nullptr, [] { helpers = new Helpers; });
}

}  // namespace dimargin

// Threads of the process that help whoever shares work. Instead of OpenMP's, which burn a processor while they wait and are
// waited for before they have begun: beside other processes that costs far more than the help is worth.
#include "threads.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
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
    int wanted;       // helpers
    int working = 0;  // of them
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
        if (job.wanted) {
            wanted -= job.wanted;
            jobs.erase(std::find(jobs.begin(), jobs.end(), &job));
        }
        ended.wait(lock, [&] { return !job.working; });
    }

private:
    // Where no more threads may be had, those that there are do the work.
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
            --wanted;
            if (--job.wanted == 0) jobs.erase(jobs.begin());
            ++job.working;
            ++n_working;
            lock.unlock();
            job.work(job.context);
            lock.lock();
            --n_working;
            if (--job.working == 0) ended.notify_all();
        }
    }

    std::mutex mutex;
    std::condition_variable posted, ended;
    std::vector<Job*> jobs;  // that want helpers, oldest first
    int n_threads = 0, n_working = 0, wanted = 0;
};

// Never destroyed: its threads wait until the process ends.
Helpers* helpers = nullptr;

}  // namespace

void share(int n_threads, void (*work)(void*), void* context) {
    if (n_threads <= 1) return work(context);
    Job job{work, context, n_threads - 1};
    helpers->share(job);
}

void prepare_threads() {
    helpers = new Helpers;
    // a child made by fork has none of its parent's threads, and perhaps a lock that nobody will release
    pthread_atfork(nullptr, nullptr, [] { helpers = new Helpers; });
}

}  // namespace dimargin

"""django-idempotency-key as its documentation shows it: answers in Django's cache on Redis, the lock on Redis too."""

import json
import os
import time

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse, JsonResponse
from django.urls import path

from ledger import Ledger, Refused, half_of_the_work

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    CACHES={
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": os.environ["REDIS_URL"],
            # Django's own default is five minutes.
            "TIMEOUT": int(os.environ.get("KEEP_SECONDS", "86400")),
        }
    },
    IDEMPOTENCY_KEY={
        # A replay carries the status of the first answer, which the default replaces by 409.
        "CONFLICT_STATUS_CODE": None,
        "STORAGE": {"CLASS": "idempotency_key.storage.CacheKeyStorage", "CACHE_NAME": "default"},
        "LOCK": {
            "CLASS": "idempotency_key.locks.redis.MultiProcessRedisLock",
            "LOCATION": os.environ["REDIS_URL"],
            "TIMEOUT": 10,
        },
    },
    INSTALLED_APPS=[],
    MIDDLEWARE=["idempotency_key.middleware.ExemptIdempotencyKeyMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="only loopback reaches this program",
)
django.setup()

# Reads the settings when it is imported.
from idempotency_key.decorators import idempotency_key  # noqa: E402

LEDGER = Ledger()


def create(request, kind):
    if request.method != "POST":
        return HttpResponse(status=405)
    try:
        body = json.loads(request.body)
        time.sleep(half_of_the_work(body))
        payment = LEDGER.pay(kind, body)
    except (Refused, ValueError) as refused:
        return JsonResponse({"detail": str(refused)}, status=400)
    time.sleep(half_of_the_work(body))
    return JsonResponse(payment, status=201)


@idempotency_key
def pay(request):
    return create(request, "pay")


@idempotency_key
def refund(request):
    return create(request, "ref")


def payment(request, name):
    if request.method == "DELETE":
        LEDGER.delete(name)
        return HttpResponse(status=204)
    if request.method == "PUT":
        LEDGER.change(name, json.loads(request.body)["amount"])
        return HttpResponse(status=204)
    found = LEDGER.payment(name)
    return JsonResponse(found) if found else JsonResponse({"detail": "no such payment"}, status=404)


def charges(_request):
    return JsonResponse(LEDGER.charges())


urlpatterns = [
    path("payments", pay),
    path("refunds", refund),
    path("payments/<name>", payment),
    path("ledger", charges),
]

if __name__ == "__main__":
    from waitress import serve

    serve(WSGIHandler(), host="127.0.0.1", port=int(os.environ["PORT"]), threads=64)

"""The pages of the ASGI peers, which differ in their middleware alone."""

import asyncio
import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ledger import Ledger, Refused, half_of_the_work

LEDGER = Ledger()


async def create(request: Request, kind: str) -> Response:
    body = await request.json()
    await asyncio.sleep(half_of_the_work(body))
    try:
        payment = LEDGER.pay(kind, body)
    except Refused as refused:
        return JSONResponse({"detail": str(refused)}, 400)
    await asyncio.sleep(half_of_the_work(body))
    return JSONResponse(payment, 201)


async def pay(request: Request) -> Response:
    return await create(request, "pay")


async def refund(request: Request) -> Response:
    return await create(request, "ref")


async def payment(request: Request) -> Response:
    found = LEDGER.payment(request.path_params["name"])
    return JSONResponse(found) if found else JSONResponse({"detail": "no such payment"}, 404)


async def change(request: Request) -> Response:
    LEDGER.change(request.path_params["name"], (await request.json())["amount"])
    return Response(status_code=204)


async def delete(request: Request) -> Response:
    LEDGER.delete(request.path_params["name"])
    return Response(status_code=204)


async def charges(_request: Request) -> Response:
    return JSONResponse(LEDGER.charges())


def app(**settings) -> Starlette:
    routes = [
        Route("/payments", pay, methods=["POST"]),
        Route("/refunds", refund, methods=["POST"]),
        Route("/payments/{name}", payment, methods=["GET"]),
        Route("/payments/{name}", change, methods=["PUT"]),
        Route("/payments/{name}", delete, methods=["DELETE"]),
        Route("/ledger", charges, methods=["GET"]),
    ]
    return Starlette(routes=routes, **settings)


def serve(application: Starlette) -> None:
    import uvicorn

    uvicorn.run(application, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
